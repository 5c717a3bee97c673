-- The whole statement with the extension: vectors made by SQL, the plain form of fusion.
.nullvalue -
update setting set value = 'm' where name = 'model';
update retriever set power = 0, depth = entry;
insert into document (path, title, content_hash, body) values
  ('a.md', 'A', printf('%064d', 1), 'the falcon flies'),
  ('b.md', 'B', printf('%064d', 2), 'the heron wades'),
  ('c.md', 'C', printf('%064d', 3), 'taxes and falcon');

-- e1 for a, (e1 + e2) / sqrt 2 for b; c has none
with recursive place (i) as (select 0 union all select i + 1 from place where i < 767)
insert into document_embedding (document_id, seq, body_start, body_end, embedding, content_hash, model)
select d.id, 0, 0, 0,
  vec_normalize(vec_f32((select '[' || group_concat(iif(i = 0, 1.0, iif(i = 1 and d.id = 2, 1.0, 0.0))) || ']' from place))),
  d.content_hash, 'm'
from document d where d.id < 3;
insert into document_vec (id, embedding)
select id, vec_quantize_binary(embedding) from document_embedding;

.mode csv
.headers on
.parameter set :now "'2026-12-01'"
.print -- by words and by what is like a.md
.parameter set :query "'falcon'"
.parameter set :embedding "(select embedding from document_embedding where document_id = 1)"
.read search.sql
.print -- without words
.parameter unset :query
.read search.sql
.print -- without a vector
.parameter set :query "'falcon'"
.parameter unset :embedding
.read search.sql
.print -- one retriever, one topic, one hit
.parameter set :embedding "(select embedding from document_embedding where document_id = 1)"
.parameter set :retrievers "'vectors'"
.parameter set :limit 1
.read search.sql
