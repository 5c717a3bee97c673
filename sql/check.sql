-- What does not fit together, one row a finding; none is good. Reads ordinary tables and the full-text index's own, so
-- any shell can run it. `kbstore check` runs it, and looks at the rest (pages, checksums, hashes, vec0), too.
select 'orphan' as kind, 'question ' || id as what, 'its document is gone' as finding
from question where document_id not in (select id from document)
union all
select 'orphan', 'vector of question ' || question_id, 'its question is gone'
from question_embedding where question_id not in (select id from question)
union all
select 'orphan', 'vector ' || id, 'its document is gone'
from document_embedding where document_id not in (select id from document)
union all
select 'orphan', 'questioned ' || document_id, 'its document is gone'
from questioned where document_id not in (select id from document)
union all
select 'orphan', 'failure of document ' || document_id, 'its document is gone'
from failure where document_id not in (select id from document)
union all
select 'orphan', 'file ' || file, 'its document is gone'
from source_file where document_id not in (select id from document)
union all
select 'orphan', 'segmented text ' || id, 'its document is gone'
from document_segmented where id not in (select id from document)
union all
select 'words', path, 'it is not in the full-text index'
from document where id not in (select id from document_fts_docsize)
union all
select 'words', 'document ' || id, 'it is in the full-text index, but gone'
from document_fts_docsize where id not in (select id from document)
union all
select 'words', path, 'its text is not split for the full-text index'
from document
where id not in (select id from document_segmented)
  and title || tags || path || description || body glob '*[฀-໿က-႟ក-៿぀-ヿㄅ-ㄯ㐀-鿿가-힣豈-﫿ｦ-ﾟ𠀀-𿿽]*'
union all
select 'words', d.path, 'what is split for the full-text index is an older text'
from document_segmented s
join document d on d.id = s.id
where replace(s.title || s.tags || s.path || s.description || s.body, char(8203), '')
  <> replace(d.title || d.tags || d.path || d.description || d.body, char(8203), '')
union all
select 'words', 'question ' || q.id, 'its words are not in the full-text index, or those of another text'
from question q
left join question_fts_content c on c.id = q.id
where replace(q.text, char(8203), '') is not replace(c.c0, char(8203), '')
union all
select 'words', 'question ' || id, 'its words are in the full-text index, but it is gone'
from question_fts_content where id not in (select id from question)
union all
select 'model', 'setting model', 'there are vectors, but no model serves'
from setting
where name = 'model' and value is null
  and (exists (select 1 from document_embedding) or exists (select 1 from question_embedding))
union all
select 'setting', name, 'it is missing'
from (
  select value as name from json_each('["rrf_k","title_weight","tags_weight","path_weight","description_weight","body_weight","question_weight","neighbours_weight","full","coverage","model","model_name","model_weight","keep_versions","keep_days","folder","hype_model","hype_prompt","hype_temperature","hype_max_tokens","hype_timeout"]'))
where name not in (select name from setting)
union all
select 'setting', name, 'it is not a number of 0 or more'
from setting
where not (typeof(value) in ('integer', 'real') and value >= 0)
  and (name in ('rrf_k', 'title_weight', 'tags_weight', 'path_weight', 'description_weight', 'body_weight',
      'question_weight', 'neighbours_weight', 'full', 'coverage', 'model_weight')
    or name in ('keep_versions', 'keep_days') and value is not null)
union all
select 'setting', name, 'it is more days than there are dates'
from setting
where name = 'keep_days' and typeof(value) in ('integer', 'real') and value >= 0
  and strftime('%Y', 'now', '-' || value || ' days') is null
order by 1, 2;
