"""What an LLM is told and what becomes of its answer: `parse`, `note_text`, how errors are judged.

The LLM is litellm itself, talking to a server in this process that answers as well or as badly as a
test wants.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from time import process_time, time
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from openai_server import OpenAI
from requests.structures import CaseInsensitiveDict

from kbstore import hype, pace
from kbstore.errors import ModelError, ModelUnavailableError, RateLimitedError
from kbstore.hype import LLM, MAX_NOTE, MAX_QUESTION, PROMPT, note_text, parse, retry_after
from kbstore.pace import Pace

A = "How often are failed calls retried?"
B = "What is the longest wait between two tries?"
C = "Which errors are never retried?"

# Whatever stands around them, the three are found.
SURROUNDED = {
    # Numbering
    "plain lines": f"{A}\n{B}\n{C}",
    "blank lines between": f"\n\n{A}\n\n{B}\n\n\n{C}\n\n",
    "line ends of Windows": f"{A}\r\n{B}\r\n{C}\r\n",
    "indented": f"   {A}\n\t{B}\n  \t {C}",
    "1.": f"1. {A}\n2. {B}\n3. {C}",
    "1. without a space": f"1.{A}\n2.{B}\n3.{C}",
    "1)": f"1) {A}\n2) {B}\n3) {C}",
    "1) without a space": f"1){A}\n2){B}\n3){C}",
    "(1)": f"(1) {A}\n(2) {B}\n(3) {C}",
    "[1]": f"[1] {A}\n[2] {B}\n[3] {C}",
    "1.)": f"1.) {A}\n2.) {B}\n3.) {C}",
    "1:": f"1: {A}\n2: {B}\n3: {C}",
    "1 -": f"1 - {A}\n2 – {B}\n3 — {C}",
    "1.-": f"1.- {A}\n2.- {B}\n3.- {C}",
    "1\\.": f"1\\. {A}\n2\\. {B}\n3\\. {C}",
    "two digits": f"8. {A}\n9. {B}\n10. {C}",
    "leading zeros": f"01. {A}\n02. {B}\n03. {C}",
    "a)": f"a) {A}\nb) {B}\nc) {C}",
    "A)": f"A) {A}\nB) {B}\nC) {C}",
    "a.": f"a. {A}\nb. {B}\nc. {C}",
    "(a)": f"(a) {A}\n(b) {B}\n(c) {C}",
    "roman": f"i. {A}\nii. {B}\niii) {C}",
    "great roman": f"II. {A}\nIII. {B}\nIV) {C}",
    "Q:": f"Q: {A}\nQ: {B}\nQ: {C}",
    "Q1:": f"Q1: {A}\nQ2: {B}\nQ3: {C}",
    "Q1.": f"Q1. {A}\nQ2. {B}\nQ3. {C}",
    "Question 1:": f"Question 1: {A}\nQuestion 2: {B}\nQUESTION 3: {C}",
    "Question #1:": f"Question #1: {A}\nQuestion #2: {B}\nQuestion #3: {C}",
    "in bold": f"**Question 1:** {A}\n**2.** {B}\n**Q3**: {C}",
    "#1:": f"#1: {A}\n#2: {B}\n#3: {C}",
    "circles": f"① {A}\n② {B}\n③{C}",
    "keycaps": f"1️⃣ {A}\n2️⃣ {B}\n3️⃣ {C}",
    "wide digits": f"１．{A}\n２．{B}\n３．{C}",
    "1、": f"1、{A}\n2、{B}\n3、{C}",
    "一、": f"一、{A}\n二、{B}\n三、{C}",
    "问题1：": f"问题1：{A}\n问题 2：{B}\n问题三：{C}",
    "Frage, pregunta, вопрос": f"Frage 1: {A}\nPregunta 2: {B}\nВопрос 3: {C}",
    # Bullets
    "-": f"- {A}\n- {B}\n- {C}",
    "*": f"* {A}\n* {B}\n* {C}",
    "+": f"+ {A}\n+ {B}\n+ {C}",
    "•": f"• {A}\n•{B}\n ◦ {C}",
    "other bullets": f"‣ {A}\n▪ {B}\n● {C}",
    "dashes": f"– {A}\n— {B}\n· {C}",
    "headings": f"# {A}\n## {B}\n### {C}",
    "citation": f"> {A}\n> {B}\n> > {C}",
    "boxes to tick": f"- [ ] {A}\n- [x] {B}\n* [ ] {C}",
    "bullet and number": f"- 1. {A}\n- 2. {B}\n* 3) {C}",
    # Around the list
    "introduction": f"Here are 3 questions that the note answers:\n\n1. {A}\n2. {B}\n3. {C}",
    "cheerful": f"Sure! Here you go:\n{A}\n{B}\n{C}\nLet me know if you need more!",
    "headings between": f"## Questions\n\n### Retries\n{A}\n{B}\n\n### Errors\n{C}",
    "offer": f"{A}\n{B}\n{C}\n\nWould you like me to write more questions?",
    "offers": f"{A}\n{B}\n{C}\nShall I continue?\nIs there anything else I can help with?",
    "offer after thanks": f"{A}\n{B}\n{C}\nI hope they help. Do you want me to add some more?",
    "separators": f"---\n{A}\n---\n{B}\n***\n{C}\n---",
    "answers below": f"1. {A}\n   Three times.\n2. {B}\n   A minute.\n3. {C}\n   Those of 4xx.",
    "answers beside": f"1. {A} Three times.\n2. {B} - A minute.\n3. {C} Answer: those of 4xx.",
    "statements between": f"The note is on retries.\n{A}\nIt is short.\n{B}\n{C}\nThat is all.",
    "blank line with spaces": f"{A}\n   \n{B}\n\u00a0\n{C}",
    # Quotes and emphasis
    "straight quotes": f'"{A}"\n"{B}"\n"{C}"',
    "single quotes": f"'{A}'\n'{B}'\n'{C}'",
    "curly quotes": f"“{A}”\n‘{B}’\n“{C}”",
    "German quotes": f"„{A}“\n„{B}”\n»{C}«",
    "French quotes": f"«{A}»\n« {B} »\n‹{C}›",
    "Japanese quotes": f"「{A}」\n『{B}』\n《{C}》",
    "backquotes": f"`{A}`\n`{B}`\n```{C}```",
    "numbered and quoted": f'1. "{A}"\n2. "{B}",\n3. “{C}”',
    "quotes that are never closed": f'"{A}\n{B}"\n“{C}',
    "bold": f"**{A}**\n1. **{B}**\n- **{C}**",
    "italic": f"*{A}*\n_{B}_\n- _{C}_",
    "bold italic": f"***{A}***\n__{B}__\n**_{C}_**",
    "bold and then an answer": f"**{A}** Three times.\n**{B}** A minute.\n**{C}** 4xx.",
    "in brackets": f"({A})\n[{B}]\n（{C}）",
    # Remarks
    "remarks": f"{A} (first section)\n{B} [easy]\n{C}（第二节）",
    "remarks after emphasis": f"*{A}* (what)\n**{B}** (how long)\n_{C}_ [which]",
    "footnotes": f"{A}[1]\n{B} [2]\n{C}[3]",
    # Several on one line
    "one line": f"{A} {B} {C}",
    "one line, numbered": f"1. {A} 2. {B} 3. {C}",
    "one line, quoted": f'"{A}" "{B}" "{C}"',
    "one line, quoted, commas": f'"{A}", "{B}", "{C}"',
    "one line with bullets": f"- {A} - {B} - {C}",
    "one line with colours": f"• {A} • {B} • {C}",
    # Code fences
    "fence": f"```\n{A}\n{B}\n{C}\n```",
    "fence with a language": f"```text\n1. {A}\n2. {B}\n3. {C}\n```",
    "fence between words": f"Here:\n```markdown\n- {A}\n- {B}\n- {C}\n```\nGood luck!",
    "fence cut short": f"```\n{A}\n{B}\n{C}",
    "tildes": f"~~~\n{A}\n{B}\n{C}\n~~~",
    "fences one by one": f"```\n{A}\n```\n```\n{B}\n```\n```\n{C}\n```",
    "fence after the first": f"{A}\n```\n{B}\n{C}\n```",
    # JSON
    "list": json.dumps([A, B, C]),
    "list over lines": json.dumps([A, B, C], indent=2),
    "list without spaces": json.dumps([A, B, C], separators=(",", ":")),
    "list in a fence": f"```json\n{json.dumps([A, B, C])}\n```",
    "list in words": f"Here is the JSON:\n{json.dumps([A, B, C])}\nDone.",
    "list after words": f"The questions: {json.dumps([A, B, C])}",
    "list of numbered texts": json.dumps([f"1. {A}", f"2. {B}", f"Q3: {C}"]),
    "object": json.dumps({"questions": [A, B, C]}),
    "object over lines": json.dumps({"questions": [A, B, C]}, indent=4),
    "object in a fence": f"```json\n{json.dumps({'questions': [A, B, C]}, indent=1)}\n```",
    "object with more": json.dumps({"title": "Is it so?", "questions": [A, B, C], "n": 3}),
    "object of numbers": json.dumps({"1": A, "2": B, "3": C}),
    "object of groups": json.dumps({"easy": [A], "hard": [B, C]}),
    "nested": json.dumps({"result": {"questions": [{"question": q} for q in (A, B, C)]}}),
    "list of objects": json.dumps([{"question": A}, {"question": B}, {"Question": C}]),
    "objects with answers": json.dumps(
        [{"question": q, "answer": "Is it not three?"} for q in (A, B, C)]
    ),
    "answers first": json.dumps([{"answer": "Really?", "question": q} for q in (A, B, C)]),
    "JSON lines": "\n".join(json.dumps({"question": q}) for q in (A, B, C)),
    "JSON lines of texts": "\n".join(json.dumps(q) for q in (A, B, C)),
    "list with a comma too much": f'[\n  "{A}",\n  "{B}",\n  "{C}",\n]',
    "list with raw line ends": f'["{A}\n", "{B}\n", "{C}\n"]',
    "cut in the fourth": json.dumps([A, B, C, "What is i"])[:-2],
    "cut in the fourth, over lines": json.dumps([A, B, C, "What is i"], indent=2)[:-4],
    "cut between": f'["{A}", "{B}", "{C}",',
    "cut object": json.dumps({"questions": [A, B, C, "What is i"]})[:-3],
    "cut object in a fence": "```json\n" + json.dumps({"questions": [A, B, C, "What"]})[:-5],
    "cut objects with answers": json.dumps(
        [{"question": q, "answer": "It is three."} for q in (A, B, C)] + [{"question": "What i"}]
    )[:-4],
    "cut in an answer": json.dumps([{"question": q, "answer": "It is so."} for q in (A, B, C)])[
        :-8
    ],
    "cut before words": f'Here:\n["{A}", "{B}", "{C}", "What',
    # Reasoning
    "think": f"<think>What should I ask? Is it long?</think>\n{A}\n{B}\n{C}",
    "thinking over lines": f"<thinking>\nHm.\nWhat now?\n</thinking>\n\n1. {A}\n2. {B}\n3. {C}",
    "reasoning": f"<reasoning>Why so?</reasoning>{A}\n{B}\n{C}",
    "loud": f"<THINK>\nWhy?\n</THINK>\n{A}\n{B}\n{C}",
    "begun by the prompt": f"Let me see. What is asked?\nWhy though?\n</think>\n\n{A}\n{B}\n{C}",
    "and in the same line": f"What is it about?</think>{A}\n{B}\n{C}",
    "cut after": f"{A}\n{B}\n{C}\n<think>\nShould it be more than that?",
    "reasoning with JSON": f'<think>["What?", "Who is it?"]</think>\n{json.dumps([A, B, C])}',
    # Dirt
    "NUL": f"\0{A}\n{B}\0\n\0\0{C}",
    "byte order mark": f"\ufeff1. {A}\n2. {B}\n3. {C}",
    "escapes of a terminal": f"\x1b {A}\n\x07{B}\n{C}\x08",
    "twice": f"{A}\n{B}\n{C}\n{A}\n{B}",
    "twice but for case": f"{A}\n{B}\n{C}\n{A.upper()}\n{B.lower()}",
    "twice but for punctuation": f"{A}\n{B}\n{C}\n{A[:-1]} ?\n“{B}”\n{C.replace('r', 'r-')}",
    "with shorter ones": f"Why?\n{A}\n?\n{B}\n???\n{C}\nSo?",
    "with one that is too long": f"{A}\nWhat is {'very ' * 60}long?\n{B}\n{C}",
}


@pytest.mark.parametrize("answer", SURROUNDED.values(), ids=SURROUNDED)
def test_questions_are_found_whatever_surrounds_them(answer: str) -> None:
    assert parse(answer) == [A, B, C]


# The line stays as it is: nothing of it is a number, a bullet, a quotation or an offer.
UNTOUCHED = [
    "--force: what does it do?",
    "`--force`: what does it do?",
    "What does `--force` do?",
    "-x: what is it for?",
    "*args: what does it hold?",
    "What do *args and **kwargs hold?",
    "What is 2**3 in Python?",
    "What does `**kwargs` mean in `def f(**kwargs)`?",
    "What does **/*.md match?",
    "Which files match `**/a*` and `**/b*`?",
    "What does __init__ do?",
    "__init__: what does it do?",
    "What does `_a` or _b do?",
    "3.5 GHz: is that fast enough?",
    "Is 3.5 GHz fast enough?",
    "404: what does this status mean?",
    "What does 404 mean?",
    "2024: what was decided?",
    "3.x: what has changed?",
    "1-Wire: how is it connected?",
    "1:1 meetings: how often are they held?",
    "16:9 or 4:3: which one is used?",
    "5G: where is it used?",
    "2FA: how is it switched on?",
    "10 – 20 users: is one server enough?",
    "802.11ax: which routers have it?",
    "#general: what is the channel for?",
    ".env: is it read at the start?",
    "~/.ssh: who may read it?",
    "$PATH: where is it set?",
    "/etc/hosts: when is it read?",
    "E. coli: how fast does it divide?",
    "J. R. R. Tolkien: when was he born?",
    "C: is it still in use?",
    "C++ or C#: which one is taught first?",
    "Q3 2025: how much was earned?",
    "Q&A: where are the answers kept?",
    "What is f(x) for x = 0?",
    "Who wrote “The Trial”?",
    "“Idle”: what does it mean?",
    '"Idle" or "busy": which one is shown?',
    "'Idle': what does it mean?",
    "What does “Are you sure?” mean in the installer?",
    "Where does the dialog 'Save changes?' come from?",
    'What does {"status": "ok"} mean?',
    'What does ["a", "b"] stand for?',
    "What does arr[0] hold?",
    "What does the <br> tag do?",
    "What does `</think>` end?",
    "What does the <think> tag do?",
    "Is it a | b or a || b?",
    "Why is x > y?",
    "Should I restart the server after a change?",
    "Can I add a second key to my account?",
    "Shall I use tabs or spaces in Makefiles?",
    "How can I help a bird that has hit a window?",
    "How may I reach the help desk at night?",
    "Is there anything that must be done before the update?",
    "Do you have to restart it?",
    "Could you share a dashboard with another team?",
    "What's the difference between retries and backoff?",
    "Why don't we retry on 4xx?",
    "Why is it slow?!",
    "¿Cuánto se espera antes de reintentar?",
    "Wie oft wird ein fehlgeschlagener Aufruf wiederholt?",
    "Was heißt „Sind Sie sicher?“ im Installer?",
    "Combien de fois un appel est-il répété ?",
    "Qu'est-ce que l'« attente exponentielle » ?",
    "Quanto tempo si aspetta?",
    "Πόσο συχνά επαναλαμβάνεται η κλήση;",
    "Сколько раз повторяется вызов?",
    "失败的调用会重试多少次？",
    "404 是什么意思？",
    "何回まで再試行しますか。",
    "何回まで再試行しますか",
    "再試行とは何か。",
    "待ち時間はどのくらいですか？",
    "호출은 몇 번 다시 시도됩니까?",
    "كم مرة تعاد المحاولة؟",
    "چند بار دوباره تلاش می‌شود؟",
    "כמה פעמים מנסים שוב?",
    "Քանի՞ անգամ է կրկնվում կանչը։",
    "Ի՞նչ է սպասման ժամանակը:",
    "कितनी बार फिर से कोशिश की जाती है?",
    "ลองใหม่กี่ครั้ง?",
    "Bao nhiêu lần thử lại?",
    "Kaç kez yeniden denenir?",
    "Ile razy ponawia się wywołanie?",
    "ስንት ጊዜ ይሞከራል፧",
]


@pytest.mark.parametrize("question", UNTOUCHED)
def test_a_question_is_kept_as_it_is_written(question: str) -> None:
    assert parse(question) == [question]
    assert parse(f"1. {question}") == [question]
    assert parse(f"- {question}\n") == [question]
    assert parse(json.dumps([question])) == [question]
    assert parse(json.dumps({"questions": [question]}, ensure_ascii=False, indent=2)) == [question]


@pytest.mark.parametrize(
    ("line", "questions"),
    [
        ("什么是重试？什么是退避？", ["什么是重试？", "什么是退避？"]),
        ("1. 什么是重试？ 2. 什么是退避？", ["什么是重试？", "什么是退避？"]),
        ("退避とは何か。何秒待ちますか。", ["退避とは何か。", "何秒待ちますか。"]),
        ("ما هي المحاولة؟ كم تدوم؟", ["ما هي المحاولة؟", "كم تدوم؟"]),
        ("¿Qué es un reintento? ¿Cuánto dura?", ["¿Qué es un reintento?", "¿Cuánto dura?"]),
        ("Qu'est-ce que c'est ? Pourquoi faire ?", ["Qu'est-ce que c'est ?", "Pourquoi faire ?"]),
        ("what is it here? why is it so?", ["what is it here?", "why is it so?"]),
        ("„Was ist das hier?“ „Wie lange noch?“", ["Was ist das hier?", "Wie lange noch?"]),
        ("What is “a b”? And “c d”?", ["What is “a b”?", "And “c d”?"]),
        ("What is it (roughly)? Why so (here)?", ["What is it (roughly)?", "Why so (here)?"]),
        # Spaces of every kind are one; the dots of an accent are composed.
        ("Combien de fois\u00a0?", ["Combien de fois ?"]),
        ("What   is\u2003a\ttab?", ["What is a tab?"]),
        ("Was fu\u0308r ein Cafe\u0301 ist es?", ["Was für ein Café ist es?"]),
        ("Πόσο συχνά επαναλαμβάνεται\u037e", ["Πόσο συχνά επαναλαμβάνεται;"]),
    ],
)  # fmt: skip
def test_a_line_may_hold_several_in_any_script(line: str, questions: list[str]) -> None:
    assert parse(line) == questions


@pytest.mark.parametrize(
    "answer",
    [
        "",
        " \n\t\n",
        "\0\0",
        "?",
        "???",
        "? ? ?",
        "Why?",
        "1.?",
        "null",
        "[]",
        "{}",
        "[[], {}, null, 1, true]",
        '{"questions": []}',
        '{"error": "not found"}',
        "42",
        "```\n```",
        "```json\n[]\n```",
        "I'm sorry, but I can't help with that.",
        "I cannot see a note. Could you please provide the text?",
        "It seems that the note is empty. Could you share its content with me?",
        "I'm sorry. What would you like me to do?",
        "How can I help you today?",
        "How may I assist you?",
        "Hello! How can I help?",
        "Is there anything else you would like to know?",
        "Would you like me to write some more?",
        "Do you want more questions?",
        "Shall I go on?",
        "Should I continue?",
        "Should I write more questions?",
        "Can I help you with anything else?",
        "Just ask. Would you like that?",
        "Do you have any other notes?",
        "Want me to add some in German?",
        "The note says that calls are retried.",
        "Ask me anything!",
        "Retries; backoff; jitter;",
        "for (i = 0; i < n; i++) sum += λ;",
        "部屋は静か。",
        "値はわずか。",
        "The end \ud83d",
        '["It is done \\ud83d"]',
        "<think>What should I ask here?",
        "<think>\nWhat should I ask here?\nWhy is it so?",
        "<thinking>Which one is it?</thinking>",
        "https://example.org/search?q=retries",
        "W" + "hy " * 200 + "?",
    ],
)
def test_what_is_no_question_is_left_out(answer: str) -> None:
    assert parse(answer) == []


def test_lone_surrogates_and_nul_never_come_through() -> None:
    """Also where JSON has spelt them out: SQLite could not hold them."""
    for answer in (
        "What is \ud83d here?",
        "What is \0 here?",
        '["What is \\ud83d here?"]',
        '["What is \\u0000 here?"]',
        '{"questions": ["What is \\udfff\\u0000 here?", "Wh',
    ):
        assert parse(answer) == ["What is here?"]


def test_at_most_ten_and_the_first_of_them() -> None:
    many = [f"What is point {i} of it?" for i in range(1, 31)]
    assert parse("\n".join(many)) == many[:10]
    assert parse(" ".join(many)) == many[:10]
    assert parse(json.dumps(many)) == many[:10]


def test_the_longest_question_that_is_kept() -> None:
    longest = "What is " + "a" * (MAX_QUESTION - 9) + "?"
    assert len(longest) == MAX_QUESTION
    assert parse(longest) == [longest]
    assert parse(longest.replace("?", "a?")) == []


def test_what_is_to_be_avoided_is_left_out_but_for_case_and_punctuation() -> None:
    answer = f"{A}\n{B}\n{C}"
    assert parse(answer, [B]) == [A, C]
    assert parse(answer, [B.upper(), f"“{C[:-1]}” ?"]) == [A]
    assert parse(answer, (A, B, C)) == []
    assert parse("Was heißt „Straße“?", ["WAS HEISST STRASSE?"]) == []
    assert parse(answer, ["?", "", "What else?"]) == [A, B, C]


def test_avoiding_makes_room_for_others() -> None:
    many = [f"What is point {i} of it?" for i in range(1, 21)]
    assert parse("\n".join(many), many[:5]) == many[5:15]


# Any text at all ---------------------------------------------------------------------------------

PIECES = [
    "?", "？", "؟", ";", "՞", "か。", "。", ".", "!", ":", "：", ",", "\n", "\r\n", " ", "\t", '"',
    "'", "`", "```", "**", "*", "_", "__", "“", "”", "„", "«", "»", "「", "」", "(", ")", "[", "]",
    "{", "}", "（", "）", "<think>", "</think>", "<thinking>", '["', '"]', '", "', '"}',
    '{"question": "', '"answer": "', "\\", '\\"', "\\n", "\\ud83d", "1.", "2)", "10", "-", "•", "#",
    "|", "Q1:", "a)", "I.", "What", "Why is it", "does", "so", "ß", "é", "e\u0301", "Ω", "ω",
    "是", "何", "ك", "\0", "\ud83d", "\ufeff", "\u2028", "\u00a0", "\x1b", "①", "1️⃣", "null",
    "Would you like", "~~~",
]  # fmt: skip

TEXTS = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=30).map("".join),
    st.lists(st.sampled_from([*PIECES, A, B, C]), max_size=20).map(" ".join),
    st.lists(st.sampled_from([*PIECES, A, B, C]), max_size=20).map("\n".join),
    st.text(max_size=200),
    st.text(st.characters(codec=None), max_size=60),
    st.lists(st.text(min_size=4, max_size=30).map(lambda text: f"{text}?"), max_size=12).map(
        "\n".join
    ),
)
QUESTION_MARKS = "?？؟⁇⁈⁉‽⸮፧;\u037e"


def ends_as_a_question(question: str) -> bool:
    bare = question.rstrip(" \"'`*_”“’‘»«」』!.,")
    return bare.endswith(tuple(QUESTION_MARKS)) or "՞" in bare or bool(re.search("か。?$", bare))


def key(question: str) -> str:
    return "".join(c for c in question.casefold() if c.isalnum())


@settings(max_examples=400, derandomize=True, deadline=None)
@given(TEXTS)
@example("[" * 5_000)
@example('{"a":' * 5_000)
@example('["' + "\\" * 4_001)
def test_any_answer_gives_clean_questions_or_none(answer: str) -> None:
    found = parse(answer)
    assert len(found) <= 10
    assert len({key(question) for question in found}) == len(found)
    for question in found:
        assert ends_as_a_question(question)
        assert question == question.strip()
        assert 4 < len(question) <= MAX_QUESTION
        assert not re.search("[\0\n\r\ud800-\udfff]", question)
    assert parse("\n".join(found)) == found
    assert parse(answer, found[:1]) == parse(answer)[1:] or len(found) == 10


@settings(max_examples=100, derandomize=True, deadline=None)
@given(
    st.lists(
        st.sampled_from([f"What is point {i} of the {word}?" for i in range(4) for word in "xyz"]),
        unique=True,
        max_size=10,
    ),
    st.sampled_from(["{}", "- {}", "{i}. {}", '"{}"', "**{}**", "{i}) *{}*", "Q{i}: {}"]),
    st.sampled_from(["{}", "Sure!\n{}\nBye.", "```\n{}\n```", "<think>Hm?</think>\n{}"]),
)
def test_what_was_put_in_comes_out(questions: list[str], line: str, around: str) -> None:
    lines = [line.format(question, i=i) for i, question in enumerate(questions, 1)]
    assert parse(around.format("\n".join(lines))) == questions


# Hostile text that takes quadratic time if it can.
HOSTILE = [
    "[", '["', "[1,", '["a?",', '["\\', "[\n", '{"question": "', "```\n", "<think>\n", "x<think>",
    "</think>", '"', "“", "**", "*a?", "(", "?(", "? ", "か。", "1. ", "\n", "Should I ", "is it? ",
]  # fmt: skip


def test_a_megabyte_of_anything_is_parsed_in_a_moment() -> None:
    begun = process_time()
    for piece in HOSTILE:
        assert len(parse(piece * (1_000_000 // len(piece)))) <= 10
    assert process_time() - begun < 20  # all of them take 1; one that is quadratic, hours


# What the LLM reads ------------------------------------------------------------------------------


def test_a_short_note_is_read_whole() -> None:
    body = "# Retries\n\nThree times, with *backoff*.\n  kept as it is  \n"
    assert note_text("Retries. Tags: http. ", body) == f"Retries. Tags: http.\n\n{body}"
    assert note_text("T. ", "") == "T.\n\n"
    assert note_text("T. ", "x" * MAX_NOTE) == "T.\n\n" + "x" * MAX_NOTE


@pytest.mark.parametrize("unit", ["A sentence of some words. ", "word ", "x", "漢", "A line\n\n"])
@pytest.mark.parametrize("times", [1.01, 2, 10, 100])
def test_of_a_long_note_passages_from_all_over_it_are_read(unit: str, times: float) -> None:
    half = unit * int(MAX_NOTE * times / len(unit) / 2 + 1)
    text = note_text("Title. Tags: a, b. ", f"THE START {half}THE MIDDLE {half}THE END")
    assert MAX_NOTE * 0.4 < len(text) <= MAX_NOTE + 200
    assert text.startswith("Title. Tags: a, b.\n\nTHE START")
    assert text.endswith("THE END")
    assert text.count("\n[…]\n") >= 9


def test_the_middle_of_a_long_note_is_read_too() -> None:
    lines = [f"This is line number {i:06} of the note.\n" for i in range(4_000)]
    text = note_text("T. ", "".join(lines))
    seen = [int(number) for number in re.findall(r"number (\d{6})", text)]
    assert seen == sorted(set(seen))
    assert (seen[0], seen[-1]) == (0, 3_999)
    for tenth in range(10):
        assert any(400 * tenth <= number < 400 * (tenth + 1) for number in seen)


def test_a_long_note_that_is_nearly_blank_is_read_all_the_same() -> None:
    text = note_text("T. ", "THE START" + "\n" * 2 * MAX_NOTE + "THE END")
    assert "THE START" in text
    assert "THE END" in text
    assert len(text) <= MAX_NOTE + 200


# How long to wait --------------------------------------------------------------------------------


def limited(value: str) -> Exception:
    error = RuntimeError()
    headers = CaseInsensitiveDict({"retry-after": value})
    error.response = SimpleNamespace(headers=headers)  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        ("7", 7.0),
        (" 120 ", 120.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),  # over
        ("", None),
        ("soon", None),
        ("-5", None),
        ("nan", None),
        ("inf", None),
        ("1e400", None),
        ("Wed, 99 Oct 2015 07:28:00 GMT", None),
    ],
)
def test_how_long_the_provider_asks_to_wait(value: str, seconds: float | None) -> None:
    assert retry_after(limited(value)) == seconds


@pytest.mark.parametrize("zone", ["07:28:00 GMT", "09:28:00 +0200", "07:28:00 -0000"])
def test_a_date_to_wait_for_may_have_any_zone_or_none(zone: str) -> None:
    until = datetime(2071, 10, 21, 7, 28, tzinfo=UTC).timestamp()
    found = retry_after(limited(f"Wed, 21 Oct 2071 {zone}"))
    assert found == pytest.approx(until - time(), abs=60)


def test_an_error_without_an_answer_asks_for_no_wait() -> None:
    assert retry_after(RuntimeError("boom")) is None
    error = RuntimeError()
    error.response = None  # type: ignore[attr-defined]
    assert retry_after(error) is None


# The pace ----------------------------------------------------------------------------------------


class Blocked(Exception):
    """Somebody would have to wait, for so many seconds (None: until another one has finished)."""


class Refusing(threading.Condition):
    def wait(self, timeout: float | None = None) -> bool:
        raise Blocked(timeout)


class Watched(threading.Condition):
    """Says in ``waits`` that somebody is going to wait, before the lock is given up."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: SimpleQueue[float | None] = SimpleQueue()

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.put(timeout)
        return super().wait(timeout)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """``clock.now`` is the time."""
    clock = SimpleNamespace(now=1_000.0)
    monkeypatch.setattr(pace, "monotonic", lambda: clock.now)
    return clock


def pace_of(parallel: int, *, patient: bool = True) -> Pace:
    made = Pace(parallel, patient=patient)
    made._changed = Refusing()
    return made


def room(made: Pace) -> int:
    """How many calls may be made at once now."""
    with ExitStack() as stack:
        for count in range(1_000):
            try:
                stack.enter_context(made.turn())
            except Blocked:
                return count
    raise AssertionError("no limit at all")


def delay(made: Pace) -> float | None:
    """How long the next call has to wait."""
    try:
        with made.turn():
            return 0.0
    except Blocked as blocked:
        return blocked.args[0]


class TestPace:
    @pytest.mark.parametrize("parallel", [1, 2, 8, 64])
    def test_no_more_than_asked_for(self, parallel: int, clock: SimpleNamespace) -> None:
        made = pace_of(parallel)
        assert room(made) == parallel
        for _ in range(500):
            made.went_well()
        assert room(made) == parallel

    def test_a_limit_halves_it_down_to_one(self, clock: SimpleNamespace) -> None:
        made = pace_of(8)
        rooms = []
        for _ in range(5):
            assert made.limited(0.0, 1)
            rooms.append(room(made))
        assert rooms == [4, 2, 1, 1, 1]

    def test_good_answers_bring_it_back_step_by_step(self, clock: SimpleNamespace) -> None:
        made = pace_of(8)
        for _ in range(3):
            made.limited(0.0, 1)
        rooms = [room(made)]
        for _ in range(60):
            made.went_well()
            rooms.append(room(made))
        assert rooms[0] == 1
        assert rooms == sorted(rooms)
        assert sorted(set(rooms)) == list(range(1, 9))
        assert rooms.index(8) > 20  # more slowly than it was halved

    def test_everybody_waits_for_as_long_as_the_provider_asks(self, clock: SimpleNamespace) -> None:
        made = pace_of(8)
        assert made.limited(7.0, 1)
        assert delay(made) == 7.0
        clock.now += 6.0
        assert delay(made) == 1.0
        assert made.limited(0.5, 1)  # of two waits, the longer one holds
        assert delay(made) == 1.0
        clock.now += 1.0
        assert delay(made) == 0.0

    def test_without_a_header_the_waits_double_up_to_a_minute(self, clock: SimpleNamespace) -> None:
        delays = []
        for tries in range(1, 12):
            made = pace_of(1)
            assert made.limited(None, tries)
            delays.append(delay(made))
        assert delays == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60]
        assert not pace_of(1).limited(None, 12)

    def test_nobody_waits_for_hours(self, clock: SimpleNamespace) -> None:
        for seconds in (1e9, float("inf")):
            made = pace_of(1)
            assert made.limited(seconds, 1)
            assert delay(made) == 120.0

    def test_a_single_call_has_little_patience(self, clock: SimpleNamespace) -> None:
        made = pace_of(1, patient=False)
        assert not made.limited(2.0, 1)
        assert not made.wait(2.0)
        assert not made.limited(None, 2)
        assert delay(made) == 0.0
        assert made.limited(0.5, 1)
        assert delay(made) == 0.5

    def test_a_call_begins_when_another_one_ends(self) -> None:
        made = Pace(1)
        made._changed = watched = Watched()
        begun = threading.Event()

        def call() -> None:
            with made.turn():
                begun.set()

        thread = threading.Thread(target=call)
        with made.turn():
            thread.start()
            assert watched.waits.get(timeout=10) is None
            assert not begun.is_set()
        assert begun.wait(10)
        thread.join()

    def test_a_call_that_fails_gives_its_place_back(self, clock: SimpleNamespace) -> None:
        made = pace_of(2)
        for _ in range(5):
            with pytest.raises(ZeroDivisionError), made.turn():
                raise ZeroDivisionError
        assert room(made) == 2

    def test_stopping_wakes_whoever_waits(self) -> None:
        made = Pace(1)
        made._changed = watched = Watched()
        outcomes: SimpleQueue[object] = SimpleQueue()

        def call() -> None:
            try:
                with made.turn():
                    outcomes.put("called")
            except ModelError as error:
                outcomes.put(str(error))

        threads = [
            threading.Thread(target=call),
            threading.Thread(target=call),
            threading.Thread(target=lambda: outcomes.put(made.wait(3_600.0))),
        ]
        with made.turn():
            for thread in threads:
                thread.start()
                watched.waits.get(timeout=10)
            made.stop()
            for thread in threads:
                thread.join(10)
        said = [outcomes.get(timeout=10) for _ in threads]
        assert sorted(map(str, said)) == ["False", "the run was stopped", "the run was stopped"]

    def test_after_the_stop_nobody_begins(self) -> None:
        made = Pace(8)
        made.stop()
        with pytest.raises(ModelError, match="stopped"), made.turn():
            raise AssertionError("it has begun")
        assert not made.wait(3_600.0)

    def test_many_threads_keep_to_it(self) -> None:
        made = Pace(4)
        lock, together, most = threading.Lock(), 0, 0

        def call(number: int) -> None:
            nonlocal together, most
            with made.turn():
                with lock:
                    together += 1
                    most = max(most, together)
                if number % 7 == 0:
                    made.limited(0.0, 1)
                else:
                    made.went_well()
                with lock:
                    together -= 1

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(call, range(500)))
        assert 1 <= most <= 4


# The LLM, by the real litellm --------------------------------------------------------------------

NOTE = "Retries.\n\nFailed calls are retried three times."
KEY = "sk-the-key-of-the-tests"
FIVE = [f"What is point {i} of Retries?" for i in range(1, 6)]


def model(llm: OpenAI, name: str = "openai/test-model", **options: Any) -> LLM:
    return LLM(name, api_base=llm.url, **options)


def error_of(llm: OpenAI, made: LLM | None = None) -> ModelError:
    with pytest.raises(ModelError) as caught:
        (made or model(llm)).questions(NOTE)
    return caught.value


class TestRequest:
    def test_what_is_sent(self, llm: OpenAI) -> None:
        made = model(llm, "openai/some-model", temperature=0.7, max_tokens=99, prompt="Ask!")
        assert made.questions(NOTE) == FIVE
        (request,) = llm.requests
        assert request["model"] == "some-model"
        assert request["temperature"] == 0.7
        assert request["max_tokens"] == 99
        assert request["messages"] == [
            {"role": "system", "content": "Ask!"},
            {"role": "user", "content": f"<note>\n{NOTE}\n</note>"},
        ]
        assert llm.keys == [f"Bearer {KEY}"]

    def test_what_is_sent_unless_told_otherwise(self, llm: OpenAI) -> None:
        model(llm).questions(NOTE)
        (request,) = llm.requests
        assert (request["temperature"], request["max_tokens"]) == (0.3, 1_024)
        assert request["messages"][0]["content"] == PROMPT
        for word in ("5 to 10", "language of the note", "no instructions"):
            assert word in PROMPT

    def test_the_questions_to_be_avoided_are_named_and_left_out(self, llm: OpenAI) -> None:
        found = model(llm).questions(NOTE, [FIVE[0], "Why not?"])
        assert found == FIVE[1:]
        first, second = llm.notes
        assert first == (
            f"<note>\n{NOTE}\n</note>\n\nDo not write these again:\n- {FIVE[0]}\n- Why not?"
        )
        assert second.startswith(first)
        assert second.endswith("".join(f"\n- {question}" for question in FIVE[1:]))

    def test_a_slow_server_is_not_waited_for(self, llm: OpenAI) -> None:
        llm.release.clear()
        error = error_of(llm, model(llm, timeout=0.05))
        assert isinstance(error, ModelUnavailableError)
        assert str(error).startswith("openai/test-model cannot be reached: ")
        assert "timed out" in str(error)
        assert (len(llm.requests), llm.waits) == (3, [1.0, 2.0])


class TestAnswers:
    def test_five_are_enough(self, llm: OpenAI) -> None:
        assert model(llm).questions(NOTE) == FIVE
        assert len(llm.requests) == 1

    def test_fewer_are_asked_for_once_more_and_merged(self, llm: OpenAI) -> None:
        llm.answers = [f"1. {A}\n2. {B}", f"1. {B}\n2. {C}"]
        assert model(llm).questions(NOTE) == [A, B, C]
        assert len(llm.requests) == 2
        assert llm.notes[1].endswith(f"Do not write these again:\n- {A}\n- {B}")

    def test_whatever_the_second_answer_looks_like(self, llm: OpenAI) -> None:
        llm.answers = [A, f"```\n{B}\n```\n<think>Or so?"]
        assert model(llm).questions(NOTE) == [A, B]
        llm.answers = [A, json.dumps({"questions": [B, C]})]
        assert model(llm).questions(NOTE) == [A, B, C]

    def test_never_more_than_ten(self, llm: OpenAI) -> None:
        many = "\n".join(f"What is number {i} of them?" for i in range(12))
        llm.answers = ["\n".join(FIVE[:4]), many]
        found = model(llm).questions(NOTE)
        assert len(found) == 10
        assert found[:4] == FIVE[:4]

    def test_a_few_are_kept_though_the_second_call_fails(self, llm: OpenAI) -> None:
        llm.answers = [f"1. {A}\n2. {B}", 400]
        assert model(llm).questions(NOTE) == [A, B]
        assert len(llm.requests) == 2

    @pytest.mark.parametrize(
        ("answer", "said"),
        [
            ("", "its answer was empty"),
            (" \n ", "its answer was empty"),
            ("I'm sorry, I can't help with that.", """"I'm sorry, I can't help with that.\""""),
            ("lorem\nipsum " * 40, "'lorem ipsum lorem ipsum "),
            ("[]", "'[]'"),
            (f"The key is {KEY}.", "'The key is ….'"),
        ],
    )
    def test_none_at_all_are_asked_for_once_more(self, llm: OpenAI, answer: str, said: str) -> None:
        llm.answer = lambda note: answer
        error = error_of(llm)
        assert type(error) is ModelError
        assert str(error).startswith("openai/test-model wrote no question (")
        assert said in str(error)
        assert len(str(error)) < 200
        assert "\n" not in str(error)
        assert len(llm.requests) == 2

    @pytest.mark.parametrize("first", ["", "Sure!", "I cannot do that."])
    def test_the_second_answer_may_be_a_good_one(self, llm: OpenAI, first: str) -> None:
        llm.answers = [first]
        assert model(llm).questions(NOTE) == FIVE
        assert len(llm.requests) == 2

    @pytest.mark.parametrize(
        "message", [{"content": None}, {"content": None, "reasoning_content": "Hm?"}, {}]
    )
    def test_an_answer_without_a_text_is_empty(self, llm: OpenAI, message: dict[str, Any]) -> None:
        class Mute(llm.RequestHandlerClass):  # type: ignore[name-defined,misc]
            def _send(self, status: int, value: dict[str, Any]) -> None:
                value["choices"][0]["message"] = {"role": "assistant", **message}
                super()._send(status, value)

        llm.RequestHandlerClass = Mute
        error = error_of(llm)
        assert type(error) is ModelError
        assert "its answer was empty" in str(error)
        assert len(llm.requests) == 2


class TestErrors:
    def test_a_rate_limit_is_waited_for(self, llm: OpenAI) -> None:
        llm.answers, llm.headers = [429, 429, 429], {"Retry-After": "0"}
        assert model(llm).questions(NOTE) == FIVE
        assert len(llm.requests) == 4
        assert llm.waits == []

    def test_but_not_for_ever(self, llm: OpenAI) -> None:
        llm.answer, llm.headers = lambda note: 429, {"Retry-After": "0"}
        llm.message = "come back later"
        error = error_of(llm)
        assert isinstance(error, RateLimitedError)
        assert str(error) == "openai/test-model limits its rate: come back later"
        assert len(llm.requests) == 12

    def test_nor_by_a_single_call(self, llm: OpenAI) -> None:
        llm.answer, llm.headers = lambda note: 429, {"Retry-After": "30"}
        error = error_of(llm, model(llm, pace=Pace(patient=False)))
        assert isinstance(error, RateLimitedError)
        assert len(llm.requests) == 1

    @pytest.mark.parametrize("answer", [500, 502, 503, 504, 529, 408, "cut"])
    def test_what_fails_in_passing_is_tried_again(self, llm: OpenAI, answer: int | str) -> None:
        llm.answers = [answer, answer]
        assert model(llm).questions(NOTE) == FIVE
        assert (len(llm.requests), llm.waits) == (3, [1.0, 2.0])

    @pytest.mark.parametrize("answer", [500, 503, 529, "cut"])
    def test_three_times_at_most(self, llm: OpenAI, answer: int | str) -> None:
        llm.answer = lambda note: answer
        error = error_of(llm)
        assert isinstance(error, ModelUnavailableError)
        assert str(error).startswith("openai/test-model cannot be reached: ")
        assert len(llm.requests) == 3

    def test_a_single_call_does_not_wait_for_long(self, llm: OpenAI) -> None:
        llm.answer = lambda note: 500
        error = error_of(llm, model(llm, pace=Pace(patient=False)))
        assert isinstance(error, ModelUnavailableError)
        assert (len(llm.requests), llm.waits) == (2, [1.0, 2.0])

    @pytest.mark.parametrize("status", [401, 402, 403, 404, 405])
    def test_what_will_fail_for_every_note_fails_at_once(self, llm: OpenAI, status: int) -> None:
        llm.answer, llm.message = lambda note: status, "not for you"
        error = error_of(llm)
        assert isinstance(error, ModelUnavailableError)
        assert str(error).startswith("openai/test-model cannot be used: not for you (")
        for step in ("environment", "OPENAI_API_KEY", "KBSTORE_HYPE_API_BASE"):
            assert step in str(error)
        assert (len(llm.requests), llm.waits) == (1, [])

    @pytest.mark.parametrize("name", ["nonsense", "nonsense/model", "gpt-44", ""])
    def test_so_does_a_provider_that_there_is_none_of(self, llm: OpenAI, name: str) -> None:
        error = error_of(llm, model(llm, name))
        assert isinstance(error, ModelUnavailableError)
        assert "name its provider, too, as in openai/gpt-4o-mini" in str(error)
        assert (llm.requests, llm.waits) == ([], [])

    @pytest.mark.parametrize(
        ("name", "variable"),
        [
            ("openai/test-model", "OPENAI_API_KEY"),
            ("anthropic/claude-3-5-haiku-latest", "ANTHROPIC_API_KEY"),
            ("gemini/gemini-2.0-flash", "GEMINI_API_KEY"),
        ],
    )
    def test_so_does_a_missing_key(
        self, llm: OpenAI, monkeypatch: pytest.MonkeyPatch, name: str, variable: str
    ) -> None:
        for other in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
            monkeypatch.delenv(other, raising=False)
        error = error_of(llm, model(llm, name))
        assert isinstance(error, ModelUnavailableError)
        assert f"{name} cannot be used: " in str(error)
        assert variable in str(error)
        assert (llm.requests, llm.waits) == ([], [])

    @pytest.mark.parametrize("status", [400, 413, 422])
    def test_what_the_note_is_refused_for_concerns_this_note_only(
        self, llm: OpenAI, status: int
    ) -> None:
        llm.answers, llm.message = [status], "this text is too long"
        made = model(llm)
        error = error_of(llm, made)
        assert type(error) is ModelError
        assert str(error) == "openai/test-model refused: this text is too long"
        assert (len(llm.requests), llm.waits) == (1, [])
        assert made.questions(NOTE) == FIVE

    def test_nobody_listens(self, llm: OpenAI) -> None:
        error = error_of(llm, LLM("openai/test-model", api_base="http://127.0.0.1:9/v1"))
        assert isinstance(error, ModelUnavailableError)
        assert "cannot be reached: Connection error" in str(error)
        assert llm.waits == [1.0, 2.0]

    def test_a_run_that_was_stopped_asks_no_more(self, llm: OpenAI) -> None:
        pace = Pace()
        pace.stop()
        assert str(error_of(llm, model(llm, pace=pace))) == "the run was stopped"
        assert llm.requests == []

    def test_a_run_that_is_stopped_meanwhile_tries_no_more(self, llm: OpenAI) -> None:
        pace = Pace()

        def stop(note: str) -> int:
            pace.stop()
            return 500

        llm.answer = stop
        error_of(llm, model(llm, pace=pace))
        assert len(llm.requests) == 1

    def test_without_litellm_the_error_says_what_is_missing(
        self, llm: OpenAI, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "litellm", None)
        load = hype._litellm.__wrapped__
        with pytest.raises(ModelUnavailableError, match="the library litellm cannot be loaded: "):
            load()


class TestKeys:
    @pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500])
    def test_one_that_the_server_echoes_is_in_no_error(self, llm: OpenAI, status: int) -> None:
        llm.answer, llm.headers = lambda note: status, {"Retry-After": "99"}
        llm.message = f"Incorrect API key {KEY}; the header was 'Authorization: Bearer {KEY}'"
        error = error_of(llm, model(llm, pace=Pace(patient=False)))
        shown = "".join(traceback.format_exception(error))
        assert "Incorrect API key …; the header was 'Authorization: Bearer …'" in str(error)
        assert KEY not in shown
        assert KEY[3:] not in shown

    @pytest.mark.parametrize("name", ["GROQ_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY"])
    def test_whatever_it_looks_like(
        self, llm: OpenAI, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        monkeypatch.setenv(name, "Zq0+/plain-text==\n")
        llm.answer, llm.message = lambda note: 401, "the key was Zq0+/plain-text=="
        assert "cannot be used: the key was … (" in str(error_of(llm))

    def test_nor_is_a_part_of_one_where_a_long_message_is_cut(self, llm: OpenAI) -> None:
        for padding in range(270, 300, 3):
            llm.answer, llm.message = lambda note: 400, "x" * padding + f" {KEY}"
            assert "sk-" not in str(error_of(llm))

    def test_nor_one_that_nobody_has_told_us_of(self, llm: OpenAI) -> None:
        llm.answer = lambda note: 401
        llm.message = "sk-somebody-elses-key is not good at https://me:hunter22@example.org/v1"
        assert "… is not good at https://…@example.org/v1" in str(error_of(llm))

    def test_short_values_are_no_keys(self, llm: OpenAI, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SOME_TOKEN", "is")
        llm.answer, llm.message = lambda note: 400, "this is so"
        assert str(error_of(llm)) == "openai/test-model refused: this is so"


SILENT = """
import json, os, socket, sys
called = []
connect, look_up = socket.socket.connect, socket.getaddrinfo

def watched_connect(self, address):
    if address[0] != "127.0.0.1":
        called.append(str(address))
        raise OSError("no network here")
    return connect(self, address)

def watched_look_up(host, *rest, **named):
    if host != "127.0.0.1":
        called.append(str(host))
        raise OSError("no network here")
    return look_up(host, *rest, **named)

socket.socket.connect, socket.getaddrinfo = watched_connect, watched_look_up
from kbstore import hype
from kbstore.errors import ModelError
from kbstore.pace import Pace

Pace.wait = lambda pace, seconds: True
base, outcomes = os.environ["KBSTORE_HYPE_API_BASE"], []
for name in ["openai/test-model"] * 7 + ["nonsense/model"]:
    try:
        outcomes.append(len(hype.LLM(name, api_base=base).questions("Note. \\n\\nText.")))
    except ModelError as error:
        outcomes.append(type(error).__name__)
for name in ("openai/gpt-4o-mini", "meta-llama/Llama-3-8b", "ollama/llama3", "x/replicate-2-7b"):
    outcomes.append(hype.LLM(name).estimate(["Note. Text."]).calls)
variable = os.environ["LITELLM_LOCAL_MODEL_COST_MAP"]
with open(sys.argv[1], "w") as file:
    json.dump({"called": called, "outcomes": outcomes, "variable": variable}, file)
"""


def test_litellm_says_nothing_and_calls_nobody_but_the_llm(llm: OpenAI, tmp_path: Path) -> None:
    """Neither when it is imported, nor when it fails, nor when it counts tokens."""
    llm.answers = ["\n".join(FIVE), 429, "\n".join(FIVE), 401, 400, 500, 500, 500, "cut", "", ""]
    llm.headers = {"Retry-After": "0"}
    environment = dict(os.environ)
    environment.pop("LITELLM_LOCAL_MODEL_COST_MAP", None)
    done = subprocess.run(
        [sys.executable, "-c", SILENT, str(tmp_path / "out.json")],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["called"] == []
    assert found["variable"] == "True"
    assert found["outcomes"] == [
        5, 5, "ModelUnavailableError", "ModelError", "ModelUnavailableError", "ModelError", 5,
        "ModelUnavailableError", 1, 1, 1, 1,
    ]  # fmt: skip
