-- From schema 1 to 2: guards for what had none, and in a form that is made faster; forgets to settle; known backups.
alter table banks add column hash blob;
alter table keys add column hash blob;
alter table tail add column hash blob;
alter table chores add column hash blob;
create table unsettled(receipt blob primary key, at integer not null, rewritten integer not null) without rowid;
create table backups(path text primary key, at integer not null) without rowid;
update banks set hash=guarded(bank, space, name);
update keys set hash=guarded(bank, number, key, base);
update tail set hash=guarded(row, length, vectors, scales);
update chores set hash=guarded(id, space, bank, key, kind, dedupe, payload, max_attempts, created);
update entries set hash=guarded_anew(hash, row, id, version, kind, content, title, speaker, name, thread, subject,
  metadata, origin, created, recorded, expires, change, digest);
update past set hash=guarded_anew(hash, row, id, version, kind, content, title, speaker, name, thread, subject,
  metadata, origin, created, recorded, expires, change, digest, retired, reason, by_entry, by_change, length,
  vectors, scales);
update pages set hash=guarded_anew(hash, first, last, count, terms, rows, lengths, chunks);
update vectors set hash=guarded_anew(hash, first, data, scales);
update journal set hash=guarded_anew(hash, id, space, at, origin, steps, undoes);
update documents set hash=guarded_anew(hash, id, space, bank, key, kind, name, version, value, subject, origin,
  recorded, expires, change);
update document_versions set hash=guarded_anew(hash, position, id, space, bank, key, kind, name, version, value,
  subject, origin, recorded, expires, change, ended, ended_change);
