"""Folders and files of a project, relative to its root, where every command runs."""

from pathlib import Path

PARAMS = Path("params.yaml")
OPS = Path("ops.yaml")  # parameters of operations, which no stage reads
DVC_LOCK = Path("dvc.lock")
PRESETS = Path("presets")  # parts of params.yaml, a file each

DEMO_CORPUS = Path("data/demo/corpus")  # whose signers are drawn, by the first stage
LANDMARKS = Path("data/landmarks")
SHARDS = LANDMARKS / "shards"
REJECTS = LANDMARKS / "rejects.tsv"
LANDMARK_CACHE = Path("data/cache/landmarks")
LOOKUP = Path("data/cache/lookup")  # training encodings, by the model that made them

TOKENS = Path("data/tokens")
TARGETS = TOKENS / "targets.parquet"
TOKENIZER = TOKENS / "tokenizer.json"
LABELS = TOKENS / "labels.json"

CHECKPOINT = Path("data/checkpoint")
START = Path("data/start.yaml")  # by which a night tells stage `train` where to start from
HISTORY = CHECKPOINT / "history.json"
SNAPSHOTS = Path("data/.training")  # data/.* is ignored by Git

MODELS = Path("data/models")  # versions that were kept, champions and challengers
WITHDRAWN_VIDEOS = Path("data/withdrawn")
RETRAIN_LOCK = Path("data/.retrain.lock")
LOGS = Path("data/logs")  # what each stage said when it last ran
SPOOL = Path("data/.tracking")  # records of runs that MLflow has not got yet

REPORTS = Path("reports")
REPORT_PAGE = REPORTS / "index.html"
FIGURES = REPORTS / "figures"
METRICS = REPORTS / "metrics.json"
EVALUATION = REPORTS / "evaluation"
TUNE = REPORTS / "tune"
JUDGEMENTS = REPORTS / "judgements"  # what people said of two systems, a folder a task
NIGHTS = REPORTS / "retrain"
LAST_NIGHT = REPORTS / "retrain.json"  # written by nights before version 0.3
APP = Path("data/app")  # recordings of `signloom app`, delivered ones too, and consents

# Names of files in the folder of any checkpoint, and of any evaluation.
WEIGHTS_NAME = "model.safetensors"
SEEDS_NAME = "seeds"  # a folder: checkpoints of further seeds
HISTORY_NAME = "history.json"
SCORES_NAME = "scores.json"
HYPOTHESES_NAME = "hypotheses.tsv"
SEED_COLUMN = "seed_"  # begins the name of its columns with the sentences of further seeds
SIGNS_NAME = "signs.tsv"


def changes_folder(corpus: Path) -> Path:
    """Return where a corpus's lock and notes lie: next to its folder, where DVC does not look."""
    folder = corpus.resolve()
    return folder.parent / f".{folder.name}.intake"


def removal_note(corpus: Path) -> Path:
    """Return the file that is there while a person is removed, and nothing else may change."""
    return changes_folder(corpus) / "removal.json"
