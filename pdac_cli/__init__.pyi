from pdac_cli.api.choosing import select_coreset as select_coreset
from pdac_cli.api.kept import KeptRows as KeptRows
from pdac_cli.api.messages import InputError as InputError
from pdac_cli.api.messages import ParameterError as ParameterError
from pdac_cli.api.messages import PdacWarning as PdacWarning
from pdac_cli.api.mixture import ProjectedGaussianMixture as ProjectedGaussianMixture
from pdac_cli.api.selector import CoresetSelector as CoresetSelector
from pdac_cli.api.streaming import StreamingSelector as StreamingSelector
from pdac_cli.api.subsets import coreset_subset as coreset_subset
from pdac_cli.api.subsets import load_rows as load_rows
from pdac_cli.errors import PdacError as PdacError
from pdac_cli.files.featureset import FeatureSet as FeatureSet
from pdac_cli.learning.avalanche import AvalancheExemplars as AvalancheExemplars
from pdac_cli.learning.avalanche import AvalancheStorage as AvalancheStorage
from pdac_cli.learning.replay import ReplayBatchSampler as ReplayBatchSampler
from pdac_cli.learning.replay import ReplayBuffer as ReplayBuffer

__version__: str
