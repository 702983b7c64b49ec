"""A new model comes in and goes out with its first weights."""

from torch import nn

from signloom.models.seq2seq import ModelOptions
from signloom.models.tokens import TokenEmbedding


def initialise(model: nn.Module, options: ModelOptions) -> None:
    """Draw a model's weights, from torch's generator.

    `xavier`: matrices Glorot uniform, as document 002 has it; `torch`: as PyTorch draws them,
    which is what document 000 leaves standing. Embeddings get the size of the positions that are
    added to them: a deviation of 1 once scaled. Where they are tied they give the logits, too,
    and are drawn small even if nothing scales them. (N(0, 1) scaled by sqrt(D), which the
    documents' code amounts to without Xavier, drowns the positions and does not learn.)

    Source: Glorot and Bengio (2010); document 002.
    """
    if options.initialization == "xavier":
        for parameter in model.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
    is_small = options.embedding_scale or options.tied_embeddings
    for module in model.modules():
        if isinstance(module, TokenEmbedding):
            nn.init.normal_(module.weight, std=options.d_model**-0.5 if is_small else 1.0)
