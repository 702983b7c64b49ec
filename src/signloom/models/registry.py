"""Model options come in, a model goes out; the only place that lists the families."""

from signloom.models.seq2seq import ModelOptions, Seq2Seq
from signloom.models.transformer import Transformer

FAMILIES = {"transformer": Transformer}


def build_model(
    options: ModelOptions, *, input_width: int, vocab_size: int, ctc_labels: int
) -> Seq2Seq:
    """Build an untrained model; seed torch before.

    Args:
        options: Family, sizes and choices.
        input_width: Features of one source frame, F.
        vocab_size: Rows of the target vocabulary, V.
        ctc_labels: Labels of the CTC head with its blank, or 0 for no head.
    """
    return FAMILIES[options.family](
        options, input_width=input_width, vocab_size=vocab_size, ctc_labels=ctc_labels
    )
