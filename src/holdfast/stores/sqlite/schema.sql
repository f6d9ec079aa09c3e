-- Row ids place bank, key and seq in order, so that one key is one range in entries, tail, pages, vectors and words.
create table meta(name text primary key, value) without rowid;
create table banks(
  bank integer primary key, space text not null, name text not null, next_key integer not null, hash blob,
  unique(space, name));
create table keys(
  bank integer not null, number integer not null, key text not null, base integer not null, high integer not null,
  disordered integer not null, hash blob, primary key(bank, number)) without rowid;
create unique index keys_key on keys(bank, key, base);
create table spent(
  bank integer not null, name blob not null, high integer not null, hash blob, primary key(bank, name)) without rowid;

create table entries(
  row integer primary key, id blob not null, version integer not null, kind integer not null, content text not null,
  title text, speaker text, name text, thread text, subject text, metadata text, origin text,
  created integer not null, recorded integer not null, expires integer, change blob not null, seen integer not null,
  digest blob, hash blob not null);
create unique index entries_id on entries(id);
create index entries_digest on entries(digest) where digest is not null;
create index entries_subject on entries(subject) where subject is not null;
create index entries_expires on entries(expires) where expires is not null;

create table past(
  number integer primary key autoincrement, row integer not null, id blob not null, version integer not null,
  kind integer not null, content text not null, title text, speaker text, name text, thread text, subject text,
  metadata text, origin text, created integer not null, recorded integer not null, expires integer,
  change blob not null, seen integer not null, digest blob,
  retired integer not null, reason text not null, by_entry blob, by_change blob not null,
  length integer not null, vectors blob, scales blob, hash blob not null);
create unique index past_id on past(id, version);
create index past_row on past(row);
create index past_by on past(by_entry) where by_entry is not null;
create index past_subject on past(subject) where subject is not null;

create table derived(
  source blob not null, record blob not null, is_document integer not null, primary key(source, record)) without rowid;
create index derived_record on derived(record);
create table tombstones(id blob primary key, space text not null, at integer not null, hash blob) without rowid;
-- Places and subjects that were forgotten as a whole, under names that tell nothing: a restore forgets them again.
create table forgotten(name blob primary key, at integer not null, hash blob) without rowid;

-- The word index takes rows in bunches: each waits in fresh first, where searches look as well.
create table fresh(number integer primary key, row integer not null, terms text not null);
create virtual table words using fts5(
  terms, content='', columnsize=0, detail=none, tokenize="ascii tokenchars '~'");
create virtual table past_words using fts5(
  terms, content='', columnsize=0, detail=none, tokenize="ascii tokenchars '~'");
insert into words(words, rank) values('secure-delete', 1);
insert into past_words(past_words, rank) values('secure-delete', 1);

create table tail(row integer primary key, length integer not null, vectors blob, scales blob, hash blob);
create table pages(
  first integer primary key, last integer not null, count integer not null, terms integer not null,
  rows blob not null, lengths blob not null, chunks blob not null, hash blob not null);
create table vectors(first integer primary key, data blob not null, scales blob not null, hash blob not null);

create table documents(
  position integer primary key autoincrement, id blob not null, space text not null, bank text not null,
  key text not null, kind text not null, name text not null, version integer not null, value text not null,
  subject text, origin text, recorded integer not null, expires integer, change blob not null, hash blob not null);
create unique index documents_id on documents(id);
create unique index documents_name on documents(space, bank, key, kind, name);
create index documents_place on documents(space, bank, key, kind, position);
create index documents_subject on documents(space, subject) where subject is not null;
create table document_versions(
  id blob not null, version integer not null, position integer not null, space text not null, bank text not null,
  key text not null, kind text not null, name text not null, value text not null, subject text, origin text,
  recorded integer not null, expires integer, change blob not null, ended integer not null, ended_change blob not null,
  hash blob not null, primary key(id, version)) without rowid;
create index document_versions_name on document_versions(space, bank, key, kind, name, version);

create table journal(
  cursor integer primary key autoincrement, id blob not null, space text not null, at integer not null, origin text,
  steps text not null, undoes text, hash blob not null);
create unique index journal_id on journal(id);
create index journal_space on journal(space);
create table idempotency(
  name blob primary key, digest blob not null, change blob not null, at integer not null, placed text not null,
  hash blob) without rowid;

create table chores(
  id blob primary key, space text not null, bank text not null, key text not null, kind text not null, dedupe text,
  payload text, state text not null, attempts integer not null, max_attempts integer not null, due integer not null,
  token integer not null, lease_until integer, worker text, last_error text, created integer not null,
  change blob not null, hash blob) without rowid;
create unique index chores_dedupe on chores(space, bank, key, dedupe) where dedupe is not null and state in ('queued', 'leased');
create index chores_due on chores(due, id) where state = 'queued';
create index chores_leased on chores(lease_until) where state = 'leased';
create index chores_place on chores(space, bank, key);

-- Forgets of which a byte may still be in the files, and copies of the file that were made before them.
create table unsettled(receipt blob primary key, at integer not null, rewritten integer not null) without rowid;
create table backups(path text primary key, at integer not null, scheduled integer not null default 0) without rowid;

-- What a space may hold, and what it holds by now: only of spaces that have a limit.
create table quotas(space text primary key, bytes integer not null, used integer not null, hash blob) without rowid;
