-- A comfortable start in the sqlite3 shell:   sqlite3 -init "$(kbstore sql shell --path)" kb.sqlite3
.headers on
.mode box --wrap 60
.nullvalue -
.parameter init
pragma foreign_keys = on;
pragma recursive_triggers = on;
select name, what from kb_help order by name;
