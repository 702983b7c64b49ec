"""The code of a served model; MLflow runs this file.

It is copied into the model's folder (models-from-code), so it is imported from there and not as a
part of the package.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow
import pandas as pd
from mlflow.pyfunc import PythonModel, PythonModelContext

from signloom.config import Count, parse_options
from signloom.translation.options import DecodingOptions
from signloom.translation.translator import Translator
from signloom_tools.translate.answer import to_json
from signloom_tools.translate.serving import check_request, from_payload, request_params
from signloom_tools.translate.timed import translate_timed


class LandmarkTranslator(PythonModel):  # type: ignore[misc]  # MLflow is not typed
    """Translates clips of landmarks with the checkpoint in the model's folder."""

    def load_context(self, context: PythonModelContext) -> None:
        """Load the checkpoint, on a GPU if there is one."""
        self._translator = Translator.load(Path(context.artifacts["checkpoint"]))
        self._layout = self._translator.source.landmarks().layout

    def predict(
        self,
        context: PythonModelContext,
        model_input: pd.DataFrame,
        params: dict[str, Any] | None = None,
    ) -> list[dict[str, Any]]:
        """Translate clips.

        Args:
            context: Unused; `load_context` had it.
            model_input: A row a clip; docs/translation.md has its columns.
            params: How to search, `n_best`, `skip_unsure` and `guess`.

        Returns:
            For each clip the object that `signloom translate --json` prints.
        """
        request = {**request_params(self._translator.decoding), **(params or {})}
        try:
            n_best = parse_options(request.pop("n_best"), Count, where="n_best")
            skip_unsure = parse_options(request.pop("skip_unsure"), bool, where="skip_unsure")
            guess = parse_options(request.pop("guess"), bool, where="guess")
            options = DecodingOptions(**request)
            if options.beam_size == self._translator.decoding.beam_size < n_best:
                options = replace(options, beam_size=n_best)  # which was chosen, not given
            rows = model_input.to_dict("records")
            check_request(rows, options, fps=self._translator.spec.features.fps)
            clips = [from_payload(row, self._layout) for row in rows]
            timed = translate_timed(
                self._translator,
                clips,
                options,
                n_best=n_best,
                skip_unsure=skip_unsure,
                guess=guess,
            )
        except ValueError as error:  # UserError too: what a client did wrong, in its answer
            raise mlflow.MlflowException.invalid_parameter_value(str(error)) from error
        return [to_json(translation) for translation in timed]


mlflow.models.set_model(LandmarkTranslator())
