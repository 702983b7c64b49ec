"""The list of model families.

To add one: write a class with the interface of `seq2seq.Seq2Seq`, add its name to the Literal of
`seq2seq.Family` and a row to `FAMILIES`, and a variant to tests/contract/variants.py.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from signloom.models.conformer import Conformer
from signloom.models.convolution import ConvolutionModel
from signloom.models.decoder_only import DecoderOnly
from signloom.models.encoder_only import EncoderOnly
from signloom.models.layers import TiedEmbedding, TiedProjection
from signloom.models.pretrained import Pretrained, TextModel
from signloom.models.recurrent import RecurrentSeq2Seq
from signloom.models.seq2seq import Family, ModelOptions, Seq2Seq
from signloom.models.transformer import Transformer

FAMILIES: dict[Family, type[Seq2Seq]] = {
    "transformer": Transformer,
    "conformer": Conformer,
    "convolution": ConvolutionModel,
    "lstm": RecurrentSeq2Seq,
    "gru": RecurrentSeq2Seq,
    "rnn": RecurrentSeq2Seq,
    "encoder_only": EncoderOnly,
    "decoder_only": DecoderOnly,
    "pretrained": Pretrained,
}


_DRAWING = {
    Tensor.normal_,
    Tensor.uniform_,
    nn.init.normal_,
    nn.init.uniform_,
    nn.init.kaiming_uniform_,
    nn.init.xavier_uniform_,
}


@contextmanager
def planned() -> Iterator[None]:
    """Give the models that are built in here shapes, but neither memory nor numbers."""
    with torch.device("meta"), _NothingDrawn():
        yield


class _NothingDrawn(TorchFunctionMode):
    """Draws no random numbers: on the device "meta" that imports torch's compiler, for a second."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call any other function."""
        keywords = kwargs or {}
        if func in _DRAWING:
            return args[0] if args else keywords["tensor"]
        return func(*args, **keywords)


def build_model(
    options: ModelOptions,
    *,
    input_width: int,
    vocab_size: int,
    ctc_labels: int,
    eos: int | None = None,
    text: TextModel | None = None,
    is_shared: bool = False,
) -> Seq2Seq:
    """Build an untrained model; seed torch before.

    Args:
        options: Family, sizes and choices.
        input_width: Features of one source frame, F; of a token source its vocabulary's size.
        vocab_size: Rows of the target vocabulary, V.
        ctc_labels: Labels of the CTC head with its blank, or 0 for no head.
        eos: Id of the token that ends a sentence; `encoder_only` needs it.
        text: Of `pretrained`, what the text model is; None: what lies in `options.text_model`.
        is_shared: Whether source ids are target ids; `options.tied_embeddings` then ties them, too.

    Raises:
        UserError: If the text model is missing, or no such model.
    """
    family = FAMILIES[options.family]
    sizes = {"input_width": input_width, "vocab_size": vocab_size, "ctc_labels": ctc_labels}
    model: Seq2Seq
    if family is Pretrained:
        text = text or TextModel.read(Path(options.text_model))
        model = Pretrained(options, **sizes, text=text)
    elif family is not EncoderOnly:
        model = family(options, **sizes)
    elif eos is None:
        raise ValueError("encoder_only was built without the id that ends a sentence; give eos")
    else:
        model = EncoderOnly(options, **sizes, eos=eos)
    is_tied = options.tied_embeddings and options.family != "pretrained"
    if is_shared and is_tied and isinstance(model.head, TiedProjection):
        model.get_submodule("encoder.source").projection = TiedEmbedding(model.head.embedding[0])
    return model
