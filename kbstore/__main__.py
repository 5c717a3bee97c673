"""``python -m kbstore``."""

from .cli import main

main(prog_name="kbstore")
