#!/usr/bin/env bash
# Believed: a call of a tokenizer with padding and truncation concerns that call alone;
#           save_pretrained writes the tokenizer as it was loaded.
# Happens:  the call's limit and padding stay in the fast tokenizer and are written into
#           tokenizer.json. Whoever reads that file with `tokenizers` gets texts cut at the length of
#           that one call, and padded, without a warning.
# Version:  transformers 5.23.0, tokenizers 0.23.3, November 2026.
# Source:   set_truncation_and_padding in transformers/tokenization_utils_tokenizers.py,
#           https://github.com/huggingface/transformers
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
    transformers==5.23.0 tokenizers==0.23.3

HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error "$folder/venv/bin/python" - "$folder" <<'PYTHON'
import sys
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import PreTrainedTokenizerFast

folder = Path(sys.argv[1])
words = ["[PAD]", "[UNK]", "we", "sign", "every", "day"]
rules = Tokenizer(WordLevel({word: id for id, word in enumerate(words)}, unk_token="[UNK]"))
rules.pre_tokenizer = Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=rules, pad_token="[PAD]", unk_token="[UNK]")


def count_tokens(name: str) -> int:
    tokenizer.save_pretrained(folder / name)
    saved = Tokenizer.from_file(str(folder / name / "tokenizer.json"))
    print(f"{name}: truncation {saved.truncation}, padding {saved.padding}")
    return len(saved.encode("we sign every day").ids)


before = count_tokens("before the call")
tokenizer(["we sign", "we"], padding=True, truncation=True, max_length=2)
after = count_tokens("after the call")
print(f"tokens of a text of four words: {before} before, {after} after")
sys.exit((before, after) != (4, 2))
PYTHON
echo "as described"
