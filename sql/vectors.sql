-- The vec0 tables: the vectors of document_embedding and question_embedding that serve, one bit a dimension, for the
-- scan that finds candidates. Derived: written only by the statements here and by the vector_queue statements of
-- queries.sql, and rebuilt from the ordinary tables at any time. Needs the sqlite-vec extension.
-- chunk_size 128 keeps the scan fast after many edits (holes cost up to 2.8 times at 1,024).

create virtual table if not exists document_vec using vec0 (
  id integer primary key,
  embedding bit[768],
  +content_hash text,
  chunk_size = 128
);

create virtual table if not exists hype_vec using vec0 (
  id integer primary key,
  embedding bit[768],
  +content_hash text,
  chunk_size = 128
);
