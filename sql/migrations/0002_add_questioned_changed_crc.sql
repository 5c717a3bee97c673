-- Questions by an LLM: which model, and which text of a document it was asked about; their words. Mirrored folders: which of a file
-- and its document is newer. A checksum of each vector. Limits for the history.

insert into setting (name, value) values
  ('neighbours_weight', 0.75),
  ('question_weight', 1.0),
  ('full', 0.7),
  ('keep_versions', null),
  ('keep_days', null),
  ('folder', (select min(root) from source_file)),
  ('hype_model', null),
  ('hype_prompt', null),
  ('hype_temperature', 0.3),
  ('hype_max_tokens', 1024),
  ('hype_timeout', 60);

create table questioned (
  document_id integer primary key references document (id) on delete cascade,
  content_hash text not null,
  model text not null,
  asked text not null default (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
) strict;

create index questioned_content_hash on questioned (content_hash);

-- Generated questions that are here already need not be asked for again.
insert into questioned (document_id, content_hash, model)
select q.document_id, d.content_hash, coalesce(max(q.model), 'unknown')
from question q
join document d on d.id = q.document_id and d.content_hash = q.content_hash
where q.origin = 'llm'
group by q.document_id;

drop index source_file_document;
alter table source_file rename to source_file_1;
create table source_file (
  root text not null,
  file text not null,
  document_id integer references document (id) on delete set null,
  size integer not null,
  mtime_ns integer not null,
  hash text not null,
  changed text,
  primary key (root, file)
) strict, without rowid;

insert into source_file (root, file, document_id, size, mtime_ns, hash)
select root, file, document_id, size, mtime_ns, hash from source_file_1;
drop table source_file_1;
create index source_file_document on source_file (document_id);

alter table document_embedding add column crc integer;
alter table question_embedding add column crc integer;

-- The words of the questions; `question_words` of queries.sql fills them, once the triggers are there.
create virtual table question_fts using fts5 (text, tokenize = 'porter unicode61 remove_diacritics 2');
create view question_segmenting as select id, text from question where false;

-- The new ranking, where nobody has chosen other powers.
update retriever set power = 2 where name = 'words' and power = 1;
update retriever set power = 3 where name = 'vectors' and power = 2;
