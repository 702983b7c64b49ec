from signloom_tools.landmarks import landmarks as landmarks
from signloom_tools.landmarks import read_shards as read_shards
from signloom_tools.landmarks import to_table as to_table
from signloom_tools.translate.model import Model as Model
from signloom_tools.translate.model import load as load

__version__: str
