"""`python -m ggmlprobe`."""

from ggmlprobe.cli import main

main(prog_name="ggmlprobe")
