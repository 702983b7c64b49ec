"""What made some landmarks is compared with what made others."""

from collections.abc import Mapping
from typing import Any

from signloom.config import UserError


def check_same_make(found: Mapping[str, Any], trained: Mapping[str, Any], *, mend: str) -> None:
    """Refuse landmarks that were found in another way than those a model was trained on.

    Args:
        found: What made the landmarks at hand; see `extract.extractor_fingerprint`.
        trained: What made those of the model.
        mend: What to do about it, as the end of the message.

    Raises:
        UserError: If anything differs; all of it in one message.
    """
    differing = sorted(k for k in {**trained, **found} if trained.get(k) != found.get(k))
    if differing:
        parts = "; ".join(f"{k}: {found.get(k)}, not {trained.get(k)}" for k in differing)
        raise UserError(
            f"these landmarks are of another make than those of the checkpoint ({parts}); {mend}"
        )
