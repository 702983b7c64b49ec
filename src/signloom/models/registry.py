"""The list of model families.

To add one: write a class with the interface of `seq2seq.Seq2Seq`, add its name to the Literal of
`seq2seq.ModelOptions.family` and a row to `FAMILIES`, and a variant to tests/contract/variants.py.
"""

from signloom.models.conformer import Conformer
from signloom.models.lstm import LSTMSeq2Seq
from signloom.models.seq2seq import ModelOptions, Seq2Seq
from signloom.models.transformer import Transformer

FAMILIES: dict[str, type[Seq2Seq]] = {
    "transformer": Transformer,
    "conformer": Conformer,
    "lstm": LSTMSeq2Seq,
}


def build_model(
    options: ModelOptions, *, input_width: int, vocab_size: int, ctc_labels: int
) -> Seq2Seq:
    """Build an untrained model; seed torch before.

    Args:
        options: Family, sizes and choices.
        input_width: Features of one source frame, F; of a token source its vocabulary's size.
        vocab_size: Rows of the target vocabulary, V.
        ctc_labels: Labels of the CTC head with its blank, or 0 for no head.
    """
    return FAMILIES[options.family](
        options, input_width=input_width, vocab_size=vocab_size, ctc_labels=ctc_labels
    )
