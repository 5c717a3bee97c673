-- What a hand must not do to the file, and the words it is told.
.bail off
insert into document (path, title) values ('a.md', 'A');
insert into document (path, title) values ('a.md', 'again');
replace into document (path, title) values ('a.md', 'again');
insert into document (path, title) values ('../b.md', 'B');
insert into document (path, title, updated) values ('b.md', 'B', '2026-02-30');
update document set tags = 'one, two';
update document set tags = '[1]';
insert into question (document_id, text) values (9, 'Whose?');
select path, title, tags from document;
insert into document_fts (document_fts, rank) values ('integrity-check', 1);
