import errno
import json
import os
import sys

import pytest
from tqdm import tqdm

from signloom.errors import ClipError, UserError, explain, name_problem, readable_name
from signloom.terminal import printable, run_program
from tests.processes import run_python

ODD = "caf\udce9 \x1b[31mred\x9b2J\u202eback\x00"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("à la maison\t1\n", "à la maison\t1\n"),
        ("من \u200cچایی", "من \u200cچایی"),  # a joiner belongs to the text
        (ODD, r"caf\udce9 \u001b[31mred\u009b2J\u202eback\u0000"),
        ("\rbar 1/2", "\rbar 1/2"),  # tqdm redraws a line
        ("good\rerror: bad\r\n", "good\\u000derror: bad\r\n"),
        ("a\u2028b\x85c", r"a\u2028b\u0085c"),
    ],
)
def test_controls_of_names_never_reach_a_terminal_raw(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_json_stays_json_on_any_terminal() -> None:
    content = {"text": "à la maison 😀", "name": ODD}
    shown = printable(json.dumps(content, ensure_ascii=False), "ascii")
    assert shown.isascii()
    assert json.loads(shown) == content


def test_all_that_is_printed_goes_through_one_edge(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        print(ODD)
        tqdm.write(ODD, file=sys.stderr)
        raise UserError(ODD)

    with pytest.raises(SystemExit) as end:
        run_program(work, stopped="")
    out, err = capsys.readouterr()
    for shown in (out, err, str(end.value)):
        assert r"caf\udce9 \u001b[31mred" in shown
        assert shown.strip().isprintable()


def test_output_to_an_ascii_terminal_is_no_traceback() -> None:
    code = (
        "import sys; from signloom.terminal import run_program\n"
        "run_program(lambda: print('elle dort \\u00e0 la maison'), stopped='')"
    )
    process = run_python("-c", code, PYTHONIOENCODING="ascii")
    assert process.stdout == "elle dort \\u00e0 la maison\n", process.stderr


def test_a_message_does_not_echo_a_megabyte() -> None:
    for error in (UserError("x" * 2**20), ClipError("x" * 2**20, "y"), UserError("x\n" * 2**19)):
        assert len(str(error)) < 25_000
    assert str(UserError("a\nb")) == "a\nb"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (PermissionError(errno.EACCES, "", "data/x"), "data/x: Permission denied; ask the owner"),
        (OSError(errno.EROFS, ""), "Read-only file system; ask the owner"),
        (OSError(errno.ENOSPC, "", "a"), "a: No space left on device; the disk is full"),
        (OSError(errno.EDQUOT, "", "a"), "a: Disk quota exceeded; your share of the disk is used"),
        (OSError(errno.EFBIG, "", b"caf\xe9"), r"caf\xe9: File too large; the disk is full"),
        (NotADirectoryError(errno.ENOTDIR, "", "a/b"), "a/b: Not a directory; something with"),
        (RuntimeError("Symlink loop from 'a'"), "Symlink loop from 'a'; links that lead"),
    ],
)
def test_what_the_system_refuses_has_a_message(error: Exception, words: str) -> None:
    message = explain(error)
    assert message is not None
    assert message.startswith(words)


def test_a_name_that_is_not_utf8_is_said_in_words() -> None:
    name = os.fsdecode(b"caf\xe9.mp4")
    with pytest.raises(UnicodeEncodeError) as caught:
        f'{{"video": "inbox/{name}"}}'.encode()
    assert explain(caught.value) == r"inbox/caf\xe9.mp4: its name is not UTF-8; rename it"
    assert name_problem(name) is not None
    assert name_problem("café.mp4") is None
    assert readable_name(name) == r"caf\xe9.mp4"
    assert readable_name("a\tb\n\x1b.mp4") == r"a\x09b\x0a\x1b.mp4"
    assert readable_name("\x9b31mred.mp4") == r"\x9b31mred.mp4"


def test_a_mistake_of_ours_keeps_its_traceback() -> None:
    assert explain(ValueError("a")) is None
    assert explain(FileNotFoundError(errno.ENOENT, "", "a")) is None
    with pytest.raises(ZeroDivisionError):
        run_program(lambda: print(1 // 0), stopped="")
