"""The names of classes in configurations: one closed, visible table.

A configuration chooses among these names. It can never name a module or a function. Classes are written as
"module:Class" and imported when they are first used, so that reading this table imports nothing.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable

from transduce.errors import UserError

NAMES: dict[str, dict[str, str]] = {
    "Model": {
        "encoder-decoder": "transduce.models.autoregressive:EncoderDecoder",
        "ensemble": "transduce.models.mixtures:Ensemble",
        "seeds": "transduce.models.mixtures:Seeds",
        "fusion": "transduce.models.mixtures:Fusion",
        "with-counts": "transduce.models.mixtures:WithCounts",
        "instant": "transduce.models.instant:Instant",
        "language-model": "transduce.models.autoregressive:LanguageModel",
        "forecaster": "transduce.models.forecaster:Forecaster",
        "density-forecaster": "transduce.models.forecaster:DensityForecaster",
        "kalman": "transduce.models.kalman:KalmanFilter",
        "tagger": "transduce.models.tagger:Tagger",
        "crf": "transduce.models.tagger:ConditionalRandomField",
        "chain-fusion": "transduce.models.chain_fusion:ChainFusion",
        "classifier": "transduce.models.classifier:Classifier",
        "ctc": "transduce.models.ctc:CTC",
        "joint-ctc": "transduce.models.ctc:JointCTC",
        "hmm": "transduce.models.hidden_markov:HiddenMarkov",
        "hmm-classifier": "transduce.models.hidden_markov_classifier:HiddenMarkovClassifier",
        "ngram": "transduce.models.ngram:Ngram",
        "joint-ngram": "transduce.models.joint_ngram:JointNgram",
        "noisy-channel": "transduce.models.noisy_channel:NoisyChannel",
        "phrase-based": "transduce.models.phrase_based:PhraseBased",
        "word-aligner": "transduce.models.aligner:WordAligner",
    },
    "Encoder": {
        "recurrent": "transduce.encoders.recurrent:RecurrentEncoder",
        "pyramidal": "transduce.encoders.pyramidal:PyramidalEncoder",
        "convs2s": "transduce.encoders.convs2s:ConvS2SEncoder",
        "multi-kernel": "transduce.encoders.multikernel:MultiKernelEncoder",
        "sentence-convolution": "transduce.encoders.sentence:SentenceConvolution",
        "transformer": "transduce.encoders.stacked:TransformerEncoder",
        "conformer": "transduce.encoders.conformer:ConformerEncoder",
        "perceptron": "transduce.encoders.perceptron:PerceptronEncoder",
        "bag": "transduce.encoders.bag:BagEncoder",
        "dense": "transduce.encoders.dense:DenseEncoder",
        "labels": "transduce.encoders.labels:LabelsEncoder",
        "first-piece": "transduce.encoders.pieces:FirstPieceEncoder",
        "labelled": "transduce.encoders.labels:LabelledEncoder",
        "siamese": "transduce.encoders.siamese:SiameseEncoder",
    },
    "Embedding": {
        "tokens": "transduce.modules.embedding:TokenEmbedding",
        "vectors": "transduce.modules.vectors:VectorEmbedding",
        "concatenated": "transduce.modules.factors:ConcatenatedFactors",
        "summed": "transduce.modules.factors:SummedFactors",
        "spelled": "transduce.modules.spelling:SpelledWords",
        "numbers": "transduce.modules.numbers:NumberEmbedding",
        "features": "transduce.modules.signals.features:FrameEmbedding",
        "subsampling": "transduce.modules.signals.subsampling:SubsamplingEmbedding",
        "columns": "transduce.modules.signals.columns:ColumnEmbedding",
        "patches": "transduce.modules.signals.patches:PatchEmbedding",
        "map": "transduce.modules.signals.feature_map:FeatureMapEmbedding",
        "frames": "transduce.modules.signals.clips:ClipEmbedding",
        "convolutional-attention": "transduce.modules.signals.convolutional_attention:ConvolutionallyAttended",
        "closed": "transduce.modules.signals.ended:EndedEmbedding",
    },
    "Emissions": {
        "words": "transduce.statistical.hidden_markov.words:WordEmissions",
        "gaussian": "transduce.statistical.hidden_markov.gaussian:GaussianEmissions",
    },
    "Component": {
        "level": "transduce.statistical.kalman.components:Level",
        "trend": "transduce.statistical.kalman.components:Trend",
        "season": "transduce.statistical.kalman.components:Season",
        "autoregression": "transduce.statistical.kalman.components:Autoregression",
        "free": "transduce.statistical.kalman.components:FreeStates",
    },
    "Position": {
        "ibm1": "transduce.statistical.alignment.position:Uniform",
        "ibm2": "transduce.statistical.alignment.position:Absolute",
        "diagonal": "transduce.statistical.alignment.position:Diagonal",
        "hmm": "transduce.statistical.alignment.jumps:Jumps",
        "fertility": "transduce.statistical.alignment.fertility:Fertility",
    },
    "Pooler": {
        "last": "transduce.modules.pooling:LastState",
        "mean": "transduce.modules.pooling:MeanPooling",
        "max": "transduce.modules.pooling:MaxPooling",
        "attention": "transduce.modules.pooling:AttentionPooling",
    },
    "Decoder": {
        "recurrent": "transduce.decoders.recurrent:RecurrentDecoder",
        "convs2s": "transduce.decoders.convs2s:ConvS2SDecoder",
        "transformer": "transduce.decoders.stacked:TransformerDecoder",
        "pointer": "transduce.decoders.pointer:PointerGenerator",
        "fused": "transduce.decoders.fused:FusedDecoder",
        "edits": "transduce.decoders.edits:EditDecoder",
        "synchronous": "transduce.decoders.synchronous:SynchronousDecoder",
    },
    "InstantDecoder": {
        "dense": "transduce.decoders.instant:DenseDecoder",
        "transformer": "transduce.decoders.instant:InstantTransformer",
    },
    "Cell": {
        "elman": "transduce.modules.cells.elman:Elman",
        "lstm": "transduce.modules.cells.lstm:LSTM",
        "lstm-without": "transduce.modules.cells.lstm:LSTMWithout",
        "lstm-peephole": "transduce.modules.cells.lstm:PeepholeLSTM",
        "lstm-layer-norm": "transduce.modules.cells.layernorm:LayerNormLSTM",
        "gru": "transduce.modules.cells.gru:GRU",
        "gru-reset-before": "transduce.modules.cells.gru:GRUResetBefore",
        "gru-layer-norm": "transduce.modules.cells.layernorm:LayerNormGRU",
        "mut1": "transduce.modules.cells.mut:MUT1",
        "mut2": "transduce.modules.cells.mut:MUT2",
        "mut3": "transduce.modules.cells.mut:MUT3",
        "ssru": "transduce.modules.cells.ssru:SSRU",
    },
    "Wiring": {
        "plain": "transduce.modules.wirings:Plain",
        "bahdanau": "transduce.modules.wirings:Bahdanau",
        "luong": "transduce.modules.wirings:Luong",
        "context": "transduce.modules.wirings:Context",
    },
    "Attention": {
        "global": "transduce.modules.attention.one_head:GlobalAttention",
        "multi-head": "transduce.modules.attention.many_heads:MultiHeadAttention",
        "location": "transduce.modules.attention.coverage:LocationAttention",
        "coverage": "transduce.modules.attention.coverage:CoverageAttention",
    },
    "Energy": {
        "dot": "transduce.modules.attention.energies:Dot",
        "general": "transduce.modules.attention.energies:General",
        "additive": "transduce.modules.attention.energies:Additive",
        "scaled-dot": "transduce.modules.attention.energies:ScaledDot",
    },
    "Mixer": {
        "attention": "transduce.modules.mixers.attention:SelfAttention",
        "recurrent": "transduce.modules.mixers.recurrent:Recurrence",
        "lightweight": "transduce.modules.mixers.convolution:LightweightConvolution",
        "dynamic": "transduce.modules.mixers.convolution:DynamicConvolution",
        "lambda": "transduce.modules.mixers.lambdas:LambdaLayer",
        "convolution": "transduce.modules.mixers.conformer:ConvolutionModule",
        "local": "transduce.modules.mixers.local:LocalSelfAttention",
    },
    "CausalMixer": {
        "attention": "transduce.modules.mixers.attention:CausalSelfAttention",
        "recurrent": "transduce.modules.mixers.recurrent:CausalRecurrence",
        "lightweight": "transduce.modules.mixers.convolution:CausalLightweightConvolution",
        "dynamic": "transduce.modules.mixers.convolution:CausalDynamicConvolution",
    },
    "Relative": {
        "none": "transduce.modules.attention.relative:NoRelative",
        "shaw": "transduce.modules.attention.relative:Shaw",
        "t5": "transduce.modules.attention.relative:T5",
        "rotary": "transduce.modules.attention.relative:Rotary",
        "alibi": "transduce.modules.attention.relative:Alibi",
    },
    "FeedForward": {
        "plain": "transduce.modules.feedforward:PlainFeedForward",
        "gated": "transduce.modules.feedforward:GatedFeedForward",
    },
    "Residual": {
        "pre": "transduce.modules.residual:PreNorm",
        "post": "transduce.modules.residual:PostNorm",
    },
    "Positions": {
        "none": "transduce.modules.positions:NoPositions",
        "sinusoidal": "transduce.modules.positions:Sinusoidal",
        "learned": "transduce.modules.positions:Learned",
    },
    "Bridge": {
        "linear": "transduce.modules.bridges:LinearBridge",
        "copy": "transduce.modules.bridges:CopyBridge",
        "zero": "transduce.modules.bridges:ZeroBridge",
    },
    "Objective": {
        "cross-entropy": "transduce.objectives.cross_entropy:CrossEntropy",
        "parallel-cross-entropy": "transduce.objectives.cross_entropy:ParallelCrossEntropy",
        "masked-cross-entropy": "transduce.objectives.masking:MaskedCrossEntropy",
        "denoising": "transduce.objectives.denoising:Denoising",
        "r-drop": "transduce.objectives.consistency:RDrop",
        "members": "transduce.objectives.members:Members",
        "minimum-risk": "transduce.objectives.risk:ExpectedRisk",
        "minimum-risk-ctc": "transduce.objectives.frame_risk:ExpectedFrameRisk",
        "chain-likelihood": "transduce.objectives.cross_entropy:ChainLikelihood",
        "ctc": "transduce.objectives.ctc:CTCLikelihood",
        "joint-ctc": "transduce.objectives.ctc:JointLikelihood",
        "squared-error": "transduce.objectives.regression:SquaredError",
        "absolute-error": "transduce.objectives.regression:AbsoluteError",
        "huber": "transduce.objectives.regression:Huber",
        "log-density": "transduce.objectives.regression:LogDensity",
        "language-likelihood": "transduce.objectives.derivations:LanguageLikelihood",
        "alignment-likelihood": "transduce.objectives.alignments:AlignmentLikelihood",
    },
    "Forcing": {
        "teacher": "transduce.objectives.forcing:TeacherForcing",
        "word-dropout": "transduce.objectives.forcing:WordDropout",
        "scheduled-sampling": "transduce.objectives.forcing:ScheduledSampling",
        "parallel-scheduled-sampling": "transduce.objectives.forcing:ParallelScheduledSampling",
    },
    "Probability": {
        "constant": "transduce.schedules:Constant",
        "linear": "transduce.schedules:Linear",
        "exponential": "transduce.schedules:Exponential",
        "inverse-sigmoid": "transduce.schedules:InverseSigmoid",
    },
    "Augmentation": {
        "spec-augment": "transduce.training.augmentation.masks:SpecAugment",
        "noise": "transduce.training.augmentation.noise:Noise",
        "stretch": "transduce.training.augmentation.stretch:Stretch",
        "affine": "transduce.training.augmentation.affine:Affine",
    },
    "Optimizer": {
        "adam": "transduce.training.optimization:Adam",
        "adamw": "transduce.training.optimization:AdamW",
        "sgd": "transduce.training.optimization:Sgd",
    },
    "Schedule": {
        "constant": "transduce.training.optimization:ConstantRate",
        "inverse-sqrt": "transduce.training.optimization:InverseSquareRoot",
        "cosine": "transduce.training.optimization:CosineDecay",
        "linear": "transduce.training.optimization:LinearDecay",
        "step": "transduce.training.optimization:StepDecay",
        "plateau": "transduce.training.optimization:ReduceOnPlateau",
    },
    "Search": {
        "greedy": "transduce.search.greedy:Greedy",
        "beam": "transduce.search.beam:Beam",
        "shortlist": "transduce.search.shortlist:Shortlist",
        "length-beam": "transduce.search.length_beam:LengthBeam",
        "labels": "transduce.search.labels:LabelSearch",
        "gaps": "transduce.search.gaps:FillGaps",
        "selection": "transduce.search.selection:SelectionSearch",
        "viterbi": "transduce.search.viterbi:Viterbi",
        "posterior": "transduce.search.viterbi:Posterior",
        "best-path": "transduce.search.frames.best_path:BestPath",
        "prefix-beam": "transduce.search.frames.prefix_beam:PrefixBeam",
        "alignment-sampling": "transduce.search.frames.alignment_sampling:AlignmentSampling",
        "sampling": "transduce.search.sampling:Sampling",
        "forecast": "transduce.search.forecast:Forecast",
        "exact": "transduce.search.exact:Exact",
        "stack": "transduce.search.phrases.stack:StackSearch",
        "none": "transduce.search.none:NoSearch",
    },
    "TextContext": {
        "carried": "transduce.search.contexts:Carried",
        "window": "transduce.search.contexts:Window",
    },
    "Truncation": {
        "top-k": "transduce.search.truncation:TopK",
        "nucleus": "transduce.search.truncation:Nucleus",
        "epsilon": "transduce.search.truncation:Epsilon",
    },
    "Filter": {
        "length": "transduce.search.filters.lengths:LengthLimit",
        "no-repeat": "transduce.search.filters.ngrams:NoRepeat",
        "brackets": "transduce.search.filters.brackets:Brackets",
        "subsequence": "transduce.search.filters.subsequence:Subsequence",
        "python": "transduce.search.filters.python:Python",
        "melody": "transduce.search.filters.melody:Melody",
        "language-model": "transduce.search.filters.language:LanguageModelFilter",
    },
    "Allocation": {
        "top-k": "transduce.search.allocation.best:BestContinuations",
        "groups": "transduce.search.allocation.groups:Groups",
    },
    "Ranking": {
        "none": "transduce.search.ranking:LogProbability",
        "average": "transduce.search.ranking:Average",
        "wu": "transduce.search.ranking:Wu",
        "brevity": "transduce.search.ranking:Brevity",
        "bounded-reward": "transduce.search.ranking:BoundedReward",
    },
    "Unit": {
        "characters": "transduce.data.tokenizers.text:Characters",
        "words": "transduce.data.tokenizers.text:Words",
        "symbols": "transduce.data.tokenizers.text:Symbols",
        "bpe": "transduce.data.tokenizers.text:Bpe",
        "unigram": "transduce.data.tokenizers.text:Unigram",
        "bytes": "transduce.data.tokenizers.text:Bytes",
        "sentencepiece": "transduce.data.tokenizers.sentencepiece:SentencePiece",
        "labelled": "transduce.data.tokenizers.labels:Labelled",
        "labels": "transduce.data.tokenizers.labels:Labels",
        "pair": "transduce.data.tokenizers.pairs:Pair",
        "gaps": "transduce.data.tokenizers.gaps:Gaps",
        "features": "transduce.data.tokenizers.features:Features",
        "spelled": "transduce.data.tokenizers.spelled:Spelled",
        "factored": "transduce.data.tokenizers.factors:Factored",
        "sentences": "transduce.data.tokenizers.spelled:Sentences",
        "selection": "transduce.data.tokenizers.selection:Selection",
        "tree-tags": "transduce.data.tokenizers.trees:TreeTags",
        "tree-brackets": "transduce.data.tokenizers.trees:TreeBrackets",
        "code": "transduce.data.tokenizers.code:Code",
        "numbers": "transduce.data.tokenizers.numbers:Numbers",
        "sound": "transduce.data.signals.sound:Sound",
        "picture": "transduce.data.signals.picture:Picture",
        "clip": "transduce.data.signals.clip:Clip",
    },
    "Origin": {
        "cmudict": "transduce.recipes.origins.cmudict:Cmudict",
        "multi30k": "transduce.recipes.origins.multi30k:Multi30k",
        "multi30k-directions": "transduce.recipes.origins.multi30k:Multi30kDirections",
        "accents": "transduce.recipes.origins.accents:Accents",
        "spoken-digits": "transduce.recipes.origins.spoken:SpokenDigits",
        "spoken-strings": "transduce.recipes.origins.spoken:SpokenStrings",
        "misspellings": "transduce.recipes.origins.misspellings:Misspellings",
        "arithmetic": "transduce.recipes.origins.arithmetic:Arithmetic",
        "penn-treebank": "transduce.recipes.origins.penn_treebank:PennTreebank",
        "war-and-peace": "transduce.recipes.origins.war_and_peace:WarAndPeace",
        "standard-library": "transduce.recipes.origins.standard_library:StandardLibrary",
        "word-alignment": "transduce.recipes.origins.word_alignment:WordAlignment",
        "xml": "transduce.recipes.origins.xml:Xml",
        "xml-documents": "transduce.recipes.origins.xml:XmlDocuments",
        "reverse": "transduce.recipes.origins.strings:Reverse",
        "ordered": "transduce.recipes.origins.strings:Ordered",
        "sentences": "transduce.recipes.origins.sentences:Sentences",
        "series": "transduce.recipes.origins.series:Series",
        "statsmodels": "transduce.recipes.origins.statsmodels:Statsmodels",
        "text-lines": "transduce.recipes.origins.text_lines:TextLines",
        "scenes": "transduce.recipes.origins.scenes:Scenes",
        "clips": "transduce.recipes.origins.clips:Clips",
        "mnist": "transduce.recipes.origins.mnist:Mnist",
        "digit-strings": "transduce.recipes.origins.digit_strings:DigitStrings",
        "django": "transduce.recipes.origins.python_code:Django",
        "conala": "transduce.recipes.origins.python_code:Conala",
        "chorales": "transduce.recipes.origins.chorales:Chorales",
        "self-dialogues": "transduce.recipes.origins.dialogues:SelfDialogues",
        "plays": "transduce.recipes.origins.plays:Plays",
        "picture-archive": "transduce.recipes.origins.archives:PictureArchive",
    },
}
"""Protocol name to {name in a configuration: "module:Class"}."""

_registered: dict[tuple[str, str], type] = {}  # users' classes, which may be in places that cannot be imported again


def register(protocol: str, name: str, cls: type) -> None:
    """Lets configurations choose ``cls`` by ``type = name`` in each place that expects the ``protocol``.

    The same class may be registered again, as a notebook cell does that runs twice. Raises UserError for an unknown
    protocol, and for a name that another class has. Raises TypeError if ``cls`` is not a class.
    """
    if protocol not in NAMES:
        raise UserError(f"no protocol {protocol!r} to register {name!r} for{alternatives(protocol, NAMES)}")
    if not isinstance(cls, type):
        raise TypeError(f"{protocol} {name!r} must be a class, not {cls!r}; for options, give the class fields")
    place = _import_path(cls)
    taken = NAMES[protocol].get(name, place)
    if taken != place:
        raise UserError(f"{protocol} {name!r} is already {taken}; register {place} under another name")
    NAMES[protocol][name] = place
    _registered[protocol, name] = cls


def find(protocol: str, name: str) -> type:
    """The class with this name for a protocol, imported if necessary. Raises KeyError if the name is not in
    ``NAMES[protocol]``.
    """
    if (protocol, name) in _registered:
        return _registered[protocol, name]
    module, _, cls = NAMES[protocol][name].partition(":")
    found: type = getattr(importlib.import_module(module), cls)
    return found


def name_of(protocol: str, cls: type) -> str | None:
    """The name of a class for a protocol: the inverse of ``find``. None if the class has no name there."""
    place = _import_path(cls)
    return next((name for name, where in NAMES.get(protocol, {}).items() if where == place), None)


def model_name(model: type) -> str:
    """The name of a model in messages: the ``type`` of its table ``model``, such as "with-counts", which people have
    written and read. The name of its class if it has no such name, as a model of another engine.
    """
    return name_of("Model", model) or model.__name__


def alternatives(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: the most similar known word (if one is similar), then all known
    words.
    """
    choices = sorted(known)
    close = difflib.get_close_matches(word, choices, n=1, cutoff=0.5)
    nearest = f'; did you mean "{close[0]}"?' if close else "."
    return f"{nearest} Known: {', '.join(choices) or 'none'}"


def _import_path(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"
