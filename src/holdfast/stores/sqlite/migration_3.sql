-- From schema 2 to 3: guards for the rest; places that were forgotten; quotas; whose doing a backup is.
alter table idempotency add column hash blob;
alter table tombstones add column hash blob;
alter table spent add column hash blob;
alter table backups add column scheduled integer not null default 0;
create table forgotten(name blob primary key, at integer not null, hash blob) without rowid;
create table quotas(space text primary key, bytes integer not null, used integer not null, hash blob) without rowid;
update idempotency set hash=guarded(name, digest, change, at, placed);
update tombstones set hash=guarded(id, space, at);
update spent set hash=guarded(bank, name, high);
