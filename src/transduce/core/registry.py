"""The names of classes in configurations: one closed, visible table.

A configuration chooses among these names. It can never name a module or a function. Classes are written as
"module:Class" and imported when they are first used, so that reading this table imports nothing.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
from collections.abc import Iterable
from typing import Any

from transduce.core.errors import MissingWingError, UserError

NAMES: dict[str, dict[str, str]] = {
    "Model": {
        "encoder-decoder": "transduce.models.autoregressive:EncoderDecoder",
        "ensemble": "transduce.models.mixtures:Ensemble",
        "seeds": "transduce.models.mixtures:Seeds",
        "fusion": "transduce.models.mixtures:Fusion",
        "with-counts": "transduce.models.mixtures:WithCounts",
        "instant": "transduce.models.instant:Instant",
        "mask-predict": "transduce.wings.refinement.model:MaskPredicting",
        "language-model": "transduce.models.autoregressive:LanguageModel",
        "forecaster": "transduce.wings.signals.series.forecaster:Forecaster",
        "density-forecaster": "transduce.wings.signals.series.forecaster:DensityForecaster",
        "linear": "transduce.wings.signals.series.linear:LinearForecaster",
        "kalman": "transduce.wings.counted.models.kalman:KalmanFilter",
        "tagger": "transduce.wings.labels.tagger:Tagger",
        "crf": "transduce.wings.labels.tagger:ConditionalRandomField",
        "chain-fusion": "transduce.wings.labels.chain_fusion:ChainFusion",
        "classifier": "transduce.wings.labels.classifier:Classifier",
        "parallel-ensemble": "transduce.wings.labels.several:ParallelEnsemble",
        "labels-with-counts": "transduce.wings.labels.several:LabelsWithCounts",
        "linear-classifier": "transduce.wings.labels.linear:LinearClassifier",
        "linear-pair-classifier": "transduce.wings.labels.linear_pairs:LinearPairClassifier",
        "linear-tagger": "transduce.wings.labels.linear_tagger:LinearTagger",
        "ctc": "transduce.wings.ctc.models:CTC",
        "joint-ctc": "transduce.wings.ctc.models:JointCTC",
        "hmm": "transduce.wings.counted.models.hidden_markov:HiddenMarkov",
        "hmm-classifier": "transduce.wings.counted.models.hidden_markov_classifier:HiddenMarkovClassifier",
        "ngram": "transduce.wings.counted.models.ngram:Ngram",
        "joint-ngram": "transduce.wings.counted.models.joint_ngram:JointNgram",
        "affix-rules": "transduce.wings.counted.models.affix_rules:AffixRules",
        "noisy-channel": "transduce.wings.counted.models.noisy_channel:NoisyChannel",
        "phrase-based": "transduce.wings.counted.models.phrase_based:PhraseBased",
        "word-aligner": "transduce.wings.counted.models.aligner:WordAligner",
    },
    "Encoder": {
        "recurrent": "transduce.layers.encoders.recurrent:RecurrentEncoder",
        "pyramidal": "transduce.layers.encoders.pyramidal:PyramidalEncoder",
        "convs2s": "transduce.layers.encoders.convs2s:ConvS2SEncoder",
        "multi-kernel": "transduce.layers.encoders.multikernel:MultiKernelEncoder",
        "sentence-convolution": "transduce.wings.labels.encoders.sentence:SentenceConvolution",
        "transformer": "transduce.layers.encoders.stacked:TransformerEncoder",
        "conformer": "transduce.wings.signals.conformer:ConformerEncoder",
        "perceptron": "transduce.wings.signals.perceptron:PerceptronEncoder",
        "bag": "transduce.layers.encoders.bag:BagEncoder",
        "dense": "transduce.layers.encoders.dense:DenseEncoder",
        "labels": "transduce.wings.labels.encoders.labels:LabelsEncoder",
        "first-piece": "transduce.wings.labels.encoders.pieces:FirstPieceEncoder",
        "labelled": "transduce.wings.labels.encoders.labels:LabelledEncoder",
        "siamese": "transduce.wings.labels.encoders.siamese:SiameseEncoder",
    },
    "Embedding": {
        "tokens": "transduce.layers.modules.embedding:TokenEmbedding",
        "vectors": "transduce.wings.vectors.embedding:VectorEmbedding",
        "concatenated": "transduce.wings.syntax.factors:ConcatenatedFactors",
        "summed": "transduce.wings.syntax.factors:SummedFactors",
        "spelled": "transduce.wings.labels.spelling:SpelledWords",
        "numbers": "transduce.wings.signals.modules.numbers:NumberEmbedding",
        "features": "transduce.wings.signals.modules.features:FrameEmbedding",
        "subsampling": "transduce.wings.signals.modules.subsampling:SubsamplingEmbedding",
        "columns": "transduce.wings.signals.modules.columns:ColumnEmbedding",
        "patches": "transduce.wings.signals.modules.patches:PatchEmbedding",
        "map": "transduce.wings.signals.modules.feature_map:FeatureMapEmbedding",
        "frames": "transduce.wings.signals.modules.clips:ClipEmbedding",
        "convolutional-attention": "transduce.wings.signals.modules.convolutional_attention:ConvolutionallyAttended",
        "closed": "transduce.wings.signals.modules.ended:EndedEmbedding",
    },
    "Emissions": {
        "words": "transduce.wings.counted.hidden_markov.words:WordEmissions",
        "gaussian": "transduce.wings.counted.hidden_markov.gaussian:GaussianEmissions",
    },
    "Component": {
        "level": "transduce.wings.counted.kalman.components:Level",
        "trend": "transduce.wings.counted.kalman.components:Trend",
        "season": "transduce.wings.counted.kalman.components:Season",
        "autoregression": "transduce.wings.counted.kalman.components:Autoregression",
        "free": "transduce.wings.counted.kalman.components:FreeStates",
    },
    "Position": {
        "ibm1": "transduce.wings.counted.alignment.position:Uniform",
        "ibm2": "transduce.wings.counted.alignment.position:Absolute",
        "diagonal": "transduce.wings.counted.alignment.position:Diagonal",
        "hmm": "transduce.wings.counted.alignment.jumps:Jumps",
        "fertility": "transduce.wings.counted.alignment.fertility:Fertility",
    },
    "Pooler": {
        "last": "transduce.layers.modules.pooling:LastState",
        "mean": "transduce.layers.modules.pooling:MeanPooling",
        "max": "transduce.layers.modules.pooling:MaxPooling",
        "attention": "transduce.layers.modules.pooling:AttentionPooling",
    },
    "Decoder": {
        "recurrent": "transduce.layers.decoders.recurrent:RecurrentDecoder",
        "convs2s": "transduce.layers.decoders.convs2s:ConvS2SDecoder",
        "transformer": "transduce.layers.decoders.stacked:TransformerDecoder",
        "pointer": "transduce.layers.decoders.pointer:PointerGenerator",
        "fused": "transduce.wings.combining.fused:FusedDecoder",
        "edits": "transduce.layers.decoders.edits:EditDecoder",
        "synchronous": "transduce.layers.decoders.synchronous:SynchronousDecoder",
    },
    "InstantDecoder": {
        "dense": "transduce.layers.decoders.instant:DenseDecoder",
        "transformer": "transduce.layers.decoders.instant:InstantTransformer",
        "masked-transformer": "transduce.wings.refinement.decoder:MaskedTransformer",
    },
    "Cell": {
        "elman": "transduce.layers.modules.cells.elman:Elman",
        "lstm": "transduce.layers.modules.cells.lstm:LSTM",
        "lstm-without": "transduce.layers.modules.cells.lstm:LSTMWithout",
        "lstm-peephole": "transduce.layers.modules.cells.lstm:PeepholeLSTM",
        "lstm-layer-norm": "transduce.layers.modules.cells.layernorm:LayerNormLSTM",
        "gru": "transduce.layers.modules.cells.gru:GRU",
        "gru-reset-before": "transduce.layers.modules.cells.gru:GRUResetBefore",
        "gru-layer-norm": "transduce.layers.modules.cells.layernorm:LayerNormGRU",
        "mut1": "transduce.layers.modules.cells.mut:MUT1",
        "mut2": "transduce.layers.modules.cells.mut:MUT2",
        "mut3": "transduce.layers.modules.cells.mut:MUT3",
        "ssru": "transduce.layers.modules.cells.ssru:SSRU",
    },
    "Wiring": {
        "plain": "transduce.layers.modules.wirings:Plain",
        "bahdanau": "transduce.layers.modules.wirings:Bahdanau",
        "luong": "transduce.layers.modules.wirings:Luong",
        "context": "transduce.layers.modules.wirings:Context",
    },
    "Attention": {
        "global": "transduce.layers.modules.attention.one_head:GlobalAttention",
        "multi-head": "transduce.layers.modules.attention.many_heads:MultiHeadAttention",
        "location": "transduce.layers.modules.attention.coverage:LocationAttention",
        "coverage": "transduce.layers.modules.attention.coverage:CoverageAttention",
    },
    "Energy": {
        "dot": "transduce.layers.modules.attention.energies:Dot",
        "general": "transduce.layers.modules.attention.energies:General",
        "additive": "transduce.layers.modules.attention.energies:Additive",
        "scaled-dot": "transduce.layers.modules.attention.energies:ScaledDot",
    },
    "Mixer": {
        "attention": "transduce.layers.modules.mixers.attention:SelfAttention",
        "recurrent": "transduce.layers.modules.mixers.recurrent:Recurrence",
        "lightweight": "transduce.layers.modules.mixers.convolution:LightweightConvolution",
        "dynamic": "transduce.layers.modules.mixers.convolution:DynamicConvolution",
        "dilated": "transduce.wings.dilation.mixers:DilatedConvolution",
        "lambda": "transduce.layers.modules.mixers.lambdas:LambdaLayer",
        "convolution": "transduce.wings.signals.modules.conformer:ConvolutionModule",
        "local": "transduce.layers.modules.mixers.local:LocalSelfAttention",
    },
    "CausalMixer": {
        "attention": "transduce.layers.modules.mixers.attention:CausalSelfAttention",
        "recurrent": "transduce.layers.modules.mixers.recurrent:CausalRecurrence",
        "lightweight": "transduce.layers.modules.mixers.convolution:CausalLightweightConvolution",
        "dynamic": "transduce.layers.modules.mixers.convolution:CausalDynamicConvolution",
        "dilated": "transduce.wings.dilation.mixers:CausalDilatedConvolution",
    },
    "Relative": {
        "none": "transduce.layers.modules.attention.relative:NoRelative",
        "shaw": "transduce.layers.modules.attention.relative:Shaw",
        "t5": "transduce.layers.modules.attention.relative:T5",
        "rotary": "transduce.layers.modules.attention.relative:Rotary",
        "alibi": "transduce.layers.modules.attention.relative:Alibi",
    },
    "FeedForward": {
        "plain": "transduce.layers.modules.feedforward:PlainFeedForward",
        "gated": "transduce.layers.modules.feedforward:GatedFeedForward",
    },
    "Residual": {
        "pre": "transduce.layers.modules.residual:PreNorm",
        "post": "transduce.layers.modules.residual:PostNorm",
    },
    "Positions": {
        "none": "transduce.layers.modules.positions:NoPositions",
        "sinusoidal": "transduce.layers.modules.positions:Sinusoidal",
        "learned": "transduce.layers.modules.positions:Learned",
    },
    "Bridge": {
        "linear": "transduce.layers.modules.bridges:LinearBridge",
        "copy": "transduce.layers.modules.bridges:CopyBridge",
        "zero": "transduce.layers.modules.bridges:ZeroBridge",
    },
    "Objective": {
        "cross-entropy": "transduce.objectives.cross_entropy:CrossEntropy",
        "parallel-cross-entropy": "transduce.objectives.cross_entropy:ParallelCrossEntropy",
        "masked-targets": "transduce.wings.refinement.objective:MaskedTargets",
        "masked-cross-entropy": "transduce.wings.language.masking:MaskedCrossEntropy",
        "denoising": "transduce.wings.language.denoising:Denoising",
        "r-drop": "transduce.objectives.consistency:RDrop",
        "members": "transduce.objectives.members:Members",
        "minimum-risk": "transduce.objectives.risk:ExpectedRisk",
        "minimum-risk-ctc": "transduce.wings.ctc.risk:ExpectedFrameRisk",
        "chain-likelihood": "transduce.objectives.cross_entropy:ChainLikelihood",
        "ctc": "transduce.wings.ctc.objectives:CTCLikelihood",
        "joint-ctc": "transduce.wings.ctc.objectives:JointLikelihood",
        "squared-error": "transduce.wings.signals.series.objectives:SquaredError",
        "absolute-error": "transduce.wings.signals.series.objectives:AbsoluteError",
        "huber": "transduce.wings.signals.series.objectives:Huber",
        "log-density": "transduce.wings.signals.series.objectives:LogDensity",
        "language-likelihood": "transduce.wings.counted.objectives:LanguageLikelihood",
        "alignment-likelihood": "transduce.wings.counted.objectives:AlignmentLikelihood",
    },
    "Forcing": {
        "teacher": "transduce.objectives.forcing:TeacherForcing",
        "word-dropout": "transduce.objectives.forcing:WordDropout",
        "scheduled-sampling": "transduce.objectives.forcing:ScheduledSampling",
        "parallel-scheduled-sampling": "transduce.objectives.forcing:ParallelScheduledSampling",
    },
    "Probability": {
        "constant": "transduce.core.schedules:Constant",
        "linear": "transduce.core.schedules:Linear",
        "exponential": "transduce.core.schedules:Exponential",
        "inverse-sigmoid": "transduce.core.schedules:InverseSigmoid",
    },
    "Augmentation": {
        "spec-augment": "transduce.wings.signals.augmentation.masks:SpecAugment",
        "noise": "transduce.wings.signals.augmentation.noise:Noise",
        "stretch": "transduce.wings.signals.augmentation.stretch:Stretch",
        "warp": "transduce.wings.signals.augmentation.warp:Warp",
        "affine": "transduce.wings.signals.augmentation.affine:Affine",
        "casing": "transduce.wings.robustness.casing:Casing",
        "no-final-punctuation": "transduce.wings.robustness.punctuation:NoFinalPunctuation",
        "speech-like": "transduce.wings.robustness.punctuation:SpeechLike",
        "typing-errors": "transduce.wings.robustness.typing_errors:TypingErrors",
        "dropped-words": "transduce.wings.robustness.words:DroppedWords",
        "joined": "transduce.wings.robustness.words:Joined",
        "split": "transduce.wings.robustness.words:Split",
        "sampled-pieces": "transduce.wings.robustness.pieces:SampledPieces",
        "robust": "transduce.wings.robustness.robust:Robust",
    },
    "Optimizer": {
        "adam": "transduce.training.optimization:Adam",
        "adamw": "transduce.training.optimization:AdamW",
        "sgd": "transduce.training.optimization:Sgd",
        "muon": "transduce.wings.optimisers.muon:Muon",
    },
    "Adapter": {"low-rank": "transduce.wings.adaptation.low_rank:LowRank"},
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
        "shortlist": "transduce.wings.counted.shortlist:Shortlist",
        "length-beam": "transduce.search.length_beam:LengthBeam",
        "mask-predict": "transduce.wings.refinement.search:MaskPredict",
        "labels": "transduce.wings.labels.search:LabelSearch",
        "gaps": "transduce.wings.language.gap_search:FillGaps",
        "selection": "transduce.wings.summaries.search:SelectionSearch",
        "viterbi": "transduce.wings.labels.viterbi:Viterbi",
        "posterior": "transduce.wings.labels.viterbi:Posterior",
        "best-path": "transduce.wings.ctc.search.best_path:BestPath",
        "prefix-beam": "transduce.wings.ctc.search.prefix_beam:PrefixBeam",
        "alignment-sampling": "transduce.wings.ctc.search.alignment_sampling:AlignmentSampling",
        "sampling": "transduce.search.sampling:Sampling",
        "forecast": "transduce.wings.signals.series.search:Forecast",
        "exact": "transduce.search.exact:Exact",
        "stack": "transduce.wings.counted.phrases.search.stack:StackSearch",
        "none": "transduce.wings.counted.models.aligner:NoSearch",
    },
    "TextContext": {
        "carried": "transduce.wings.language.contexts:Carried",
        "window": "transduce.wings.language.contexts:Window",
    },
    "Truncation": {
        "top-k": "transduce.search.truncation:TopK",
        "nucleus": "transduce.search.truncation:Nucleus",
        "epsilon": "transduce.search.truncation:Epsilon",
    },
    "Filter": {
        "length": "transduce.search.filters.lengths:LengthLimit",
        "no-repeat": "transduce.search.filters.ngrams:NoRepeat",
        "brackets": "transduce.wings.syntax.filters.brackets:Brackets",
        "subsequence": "transduce.wings.summaries.subsequence:Subsequence",
        "python": "transduce.wings.syntax.filters.python:Python",
        "melody": "transduce.wings.signals.music.melody:Melody",
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
    "Metric": {
        "bleu": "transduce.metrics.bleu:Bleu",
        "bleu:code": "transduce.wings.syntax.metrics.code:CodeBleu",
        "chrf": "transduce.metrics.bleu:Chrf",
        "chrf++": "transduce.metrics.bleu:ChrfPlusPlus",
        "ter": "transduce.metrics.bleu:Ter",
        "rouge1": "transduce.wings.summaries.metrics.rouge:Rouge1",
        "rouge2": "transduce.wings.summaries.metrics.rouge:Rouge2",
        "rougeL": "transduce.wings.summaries.metrics.rouge:RougeL",
        "sari": "transduce.wings.summaries.metrics.sari:Sari",
        "kept_f1": "transduce.wings.summaries.metrics.compression:KeptF1",
        "cer": "transduce.metrics.error_rates:CharacterErrorRate",
        "wer": "transduce.metrics.error_rates:WordErrorRate",
        "per": "transduce.metrics.error_rates:PhonemeErrorRate",
        "item_error": "transduce.metrics.exact:ItemError",
        "exact": "transduce.metrics.exact:ExactMatch",
        "perplexity": "transduce.metrics.perplexity:Perplexity",
        "perplexity_word": "transduce.metrics.perplexity:PerplexityWord",
        "perplexity_byte": "transduce.metrics.perplexity:PerplexityByte",
        "bits_per_character": "transduce.metrics.perplexity:BitsPerCharacter",
        "nats_per_step": "transduce.wings.signals.music.metrics:NatsPerStep",
        "kept_melody": "transduce.wings.signals.music.metrics:KeptMelody",
        "token_accuracy": "transduce.metrics.exact:TokenAccuracy",
        "accuracy": "transduce.metrics.labels:Accuracy",
        "macro_f1": "transduce.metrics.labels:MacroF1",
        "entity_f1": "transduce.metrics.labels:EntityF1",
        "bracket_f1": "transduce.wings.syntax.metrics.brackets:BracketF1",
        "bracket_precision": "transduce.wings.syntax.metrics.brackets:BracketPrecision",
        "bracket_recall": "transduce.wings.syntax.metrics.brackets:BracketRecall",
        "bracket_exact": "transduce.wings.syntax.metrics.brackets:BracketExact",
        "code_exact": "transduce.wings.syntax.metrics.code:CodeExact",
        "parses": "transduce.wings.syntax.metrics.code:Parses",
        "distinct1": "transduce.wings.language.diversity:Distinct1",
        "distinct2": "transduce.wings.language.diversity:Distinct2",
        "mean_length": "transduce.wings.language.diversity:MeanLength",
        "edit_precision": "transduce.wings.correction.metrics:EditPrecision",
        "edit_recall": "transduce.wings.correction.metrics:EditRecall",
        "edit_f05": "transduce.wings.correction.metrics:EditF05",
        "aer": "transduce.wings.alignment.metrics:AlignmentErrorRate",
        "link_precision": "transduce.wings.alignment.metrics:LinkPrecision",
        "link_recall": "transduce.wings.alignment.metrics:LinkRecall",
        "link_f1": "transduce.wings.alignment.metrics:LinkF1",
        "mae": "transduce.wings.signals.series.metrics:MeanAbsoluteError",
        "rmse": "transduce.wings.signals.series.metrics:RootMeanSquaredError",
        "mase": "transduce.wings.signals.series.metrics:MeanAbsoluteScaledError",
        "mase-4": "transduce.wings.signals.series.metrics:QuarterlyScaledError",
        "mase-7": "transduce.wings.signals.series.metrics:WeeklyScaledError",
        "mase-12": "transduce.wings.signals.series.metrics:YearlyScaledError",
        "mase-24": "transduce.wings.signals.series.metrics:DailyScaledError",
        "crps": "transduce.wings.signals.series.metrics:RankedProbabilityScore",
        "coverage": "transduce.wings.signals.series.metrics:Coverage",
        "coverage-50": "transduce.wings.signals.series.metrics:HalfCoverage",
        "log_score": "transduce.wings.signals.series.metrics:LogScore",
    },
    "Unit": {
        "characters": "transduce.data.tokenizers.text:Characters",
        "words": "transduce.data.tokenizers.text:Words",
        "symbols": "transduce.data.tokenizers.text:Symbols",
        "bpe": "transduce.data.tokenizers.text:Bpe",
        "unigram": "transduce.data.tokenizers.text:Unigram",
        "bytes": "transduce.data.tokenizers.text:Bytes",
        "sentencepiece": "transduce.wings.engines.sentencepiece:SentencePiece",
        "labelled": "transduce.wings.labels.tokenizer:Labelled",
        "labels": "transduce.wings.labels.tokenizer:Labels",
        "pair": "transduce.wings.labels.pairs:Pair",
        "gaps": "transduce.wings.language.gap_tokenizer:Gaps",
        "features": "transduce.wings.syntax.tokenizers.features:Features",
        "spelled": "transduce.wings.labels.spelled:Spelled",
        "factored": "transduce.wings.syntax.tokenizers.factors:Factored",
        "sentences": "transduce.wings.labels.spelled:Sentences",
        "selection": "transduce.wings.summaries.tokenizer:Selection",
        "tree-tags": "transduce.wings.syntax.tokenizers.trees:TreeTags",
        "tree-brackets": "transduce.wings.syntax.tokenizers.trees:TreeBrackets",
        "code": "transduce.wings.syntax.tokenizers.code:Code",
        "numbers": "transduce.wings.signals.tokenizers.numbers:Numbers",
        "sound": "transduce.wings.signals.tokenizers.sound:Sound",
        "picture": "transduce.wings.signals.tokenizers.picture:Picture",
        "clip": "transduce.wings.signals.tokenizers.clip:Clip",
        "page-order": "transduce.wings.signals.tokenizers.page_order:PageOrder",
    },
    "PairFilter": {"pairs": "transduce.wings.filtering.pairs:PairFilters"},
    "Origin": {
        "cmudict": "transduce.wings.recipes.origins.cmudict:Cmudict",
        "multi30k": "transduce.wings.recipes.origins.multi30k:Multi30k",
        "multi30k-directions": "transduce.wings.recipes.origins.multi30k:Multi30kDirections",
        "accents": "transduce.wings.recipes.origins.accents:Accents",
        "spoken-digits": "transduce.wings.recipes.origins.spoken:SpokenDigits",
        "spoken-strings": "transduce.wings.recipes.origins.spoken:SpokenStrings",
        "misspellings": "transduce.wings.recipes.origins.misspellings:Misspellings",
        "arithmetic": "transduce.wings.recipes.origins.arithmetic:Arithmetic",
        "penn-treebank": "transduce.wings.recipes.origins.penn_treebank:PennTreebank",
        "war-and-peace": "transduce.wings.recipes.origins.war_and_peace:WarAndPeace",
        "standard-library": "transduce.wings.recipes.origins.standard_library:StandardLibrary",
        "word-alignment": "transduce.wings.recipes.origins.word_alignment:WordAlignment",
        "xml": "transduce.wings.recipes.origins.xml:Xml",
        "xml-documents": "transduce.wings.recipes.origins.xml:XmlDocuments",
        "reverse": "transduce.data.strings:Reverse",
        "ordered": "transduce.data.strings:Ordered",
        "sentences": "transduce.wings.recipes.origins.sentences:Sentences",
        "series": "transduce.wings.recipes.origins.series:Series",
        "statsmodels": "transduce.wings.recipes.origins.statsmodels:Statsmodels",
        "text-lines": "transduce.wings.recipes.origins.text_lines:TextLines",
        "scenes": "transduce.wings.recipes.origins.scenes:Scenes",
        "clips": "transduce.wings.recipes.origins.clips:Clips",
        "mnist": "transduce.wings.recipes.origins.mnist:Mnist",
        "digit-strings": "transduce.wings.recipes.origins.digit_strings:DigitStrings",
        "django": "transduce.wings.recipes.origins.python_code:Django",
        "conala": "transduce.wings.recipes.origins.python_code:Conala",
        "chorales": "transduce.wings.recipes.origins.chorales:Chorales",
        "self-dialogues": "transduce.wings.recipes.origins.dialogues:SelfDialogues",
        "plays": "transduce.wings.recipes.origins.plays:Plays",
        "picture-archive": "transduce.wings.recipes.origins.archives:PictureArchive",
    },
}
"""Protocol name to {name in a configuration: "module:Class"}."""

SERVICES: dict[str, str] = {
    "extras": "transduce.wings.alignment.extras:add_extras",
    "check extras": "transduce.wings.alignment.extras:check_extras",
    "word alignment": "transduce.wings.alignment.corpus:align",
    "constituents": "transduce.wings.syntax.constituents:read",
    "records of a CSV table": "transduce.wings.documents.csv_tables:records",
    "protection": "transduce.wings.protection.protection:Protection",
    "own aligner": "transduce.wings.protection.own_aligner:OwnAligner",
    "aligner of a run": "transduce.wings.protection.own_aligner:learn",
    "records of a Parquet file": "transduce.wings.documents.parquet:records",
    "rows of a Parquet file": "transduce.wings.documents.parquet:count",
    "glossary": "transduce.wings.documents.glossary:Glossary",
    "document": "transduce.wings.documents.translation:document_among",
    "document written": "transduce.wings.documents.translation:write_translation",
    "entries of a dictionary": "transduce.wings.documents.lexicons:entries",
    "units of a translation memory": "transduce.wings.documents.memories:units",
    "texts of a unit": "transduce.wings.documents.memories:texts",
    "next words": "transduce.wings.language.completion:complete",
    "generated texts": "transduce.wings.language.generation:generate",
    "text context": "transduce.wings.language.contexts:context",
    "steps of a signal": "transduce.wings.signals.tokenizers.tokenizer:channelled",
    "word vectors": "transduce.wings.vectors.run:fill_tables",
    "tuning": "transduce.wings.combining.tuning.tuner:tuner_of",
    "native engine": "transduce.wings.engines.native.model:native_model",
    "exported model": "transduce.wings.engines.opening:open_model",
    "light export": "transduce.wings.engines.light:opened",
    "progress": "transduce.wings.terminal.progress:shown",
    "events for TensorBoard": "transduce.wings.lab.tensorboard:boards",
    "shards measured": "transduce.wings.lab.evaluated_shards:shards_measured",
    "shards on a cluster": "transduce.wings.lab.shards_on_cluster:answer_shards",
    "dry run": "transduce.wings.lab.dry_run:dry_run",
    "comparison": "transduce.wings.lab.commands.compare:compared_with",
    "evaluation page": "transduce.wings.lab.reports.evaluation:write_page",
    "parts to start from": "transduce.wings.adaptation.parts:Parts",
    "with old pairs": "transduce.wings.adaptation.old_pairs:with_old_pairs",
    "loss of old data": "transduce.wings.adaptation.old_pairs:OldLoss",
    "sharded training": "transduce.wings.sharding.fully_sharded:ShardedTrainable",
    "grown pieces": "transduce.wings.adaptation.pieces:grown",
    "parts of tokens": "transduce.wings.adaptation.pieces:parts",
    "robust augmentation": "transduce.wings.robustness.robust:Robust",
    "robust units": "transduce.wings.robustness.robust:lowercased",
    "varied texts": "transduce.wings.robustness.feed:varied_texts",
    "check varied texts": "transduce.wings.robustness.feed:check_texts",
    "request for data": "transduce.wings.fitting.auto:chosen_request",
    "record of systems": "transduce.wings.lab.recording:record_systems",
    "committed code": "transduce.wings.records.provenance:check_committed",
    "command line": "transduce.wings.records.provenance:command_line",
}
"""What the hall asks of wings, which it does not import: the name of a service to "module:function"."""

COMMANDS: dict[str, str] = {
    "align": "transduce.wings.counted.commands.align",
    "back-translate": "transduce.wings.lab.commands.back_translate",
    "benchmark": "transduce.wings.lab.commands.benchmark",
    "chat": "transduce.wings.serving.commands.chat",
    "compare": "transduce.wings.lab.commands.compare",
    "complete": "transduce.wings.language.commands.complete",
    "correct": "transduce.wings.correction.commands.correct",
    "data": "transduce.wings.looking.commands.data",
    "doctor": "transduce.wings.lab.commands.doctor",
    "distance": "transduce.wings.looking.commands.distance",
    "embed": "transduce.wings.vectors.commands.embed",
    "examine": "transduce.wings.looking.commands.examine",
    "export": "transduce.wings.engines.commands.export",
    "fit": "transduce.wings.fitting.commands.fit",
    "generate": "transduce.wings.language.commands.generate",
    "heads": "transduce.wings.looking.commands.heads",
    "import": "transduce.wings.engines.commands.importing",
    "inspect": "transduce.wings.looking.commands.inspect",
    "lattice": "transduce.wings.ctc.commands.lattice",
    "map": "transduce.wings.vectors.commands.map",
    "music": "transduce.wings.signals.music.commands",
    "ngram": "transduce.wings.counted.commands.ngram",
    "pack": "transduce.wings.engines.commands.pack",
    "pull": "transduce.wings.engines.commands.pack",
    "push": "transduce.wings.engines.commands.pack",
    "rank": "transduce.wings.combining.commands.rank",
    "recipes": "transduce.wings.recipes.commands",
    "rerank": "transduce.wings.combining.commands.rerank",
    "runs": "transduce.wings.lab.commands.runs",
    "serve": "transduce.wings.serving.commands.serve",
    "shortlist": "transduce.wings.counted.commands.shortlist",
    "sweep": "transduce.wings.lab.commands.sweep",
    "vectors": "transduce.wings.vectors.commands.app",
}
"""The commands of wings, and their modules. The others are modules of ``transduce.cli``."""

WINGS = "transduce.wings"
RECIPES = f"{WINGS}.recipes"  # the package whose .toml files are the recipes with a name

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


def registrations() -> int:
    """The number of users' classes that have a name. Names change only with it."""
    return len(_registered)


def find(protocol: str, name: str) -> type:
    """The class with this name for a protocol, imported if necessary. Raises KeyError if the name is not in
    ``NAMES[protocol]``.
    """
    if (protocol, name) in _registered:
        return _registered[protocol, name]
    found: type = imported(NAMES[protocol][name], f"{protocol.lower()} {name!r}")
    return found


def installed(protocol: str) -> list[str]:
    """The names of a protocol that are not in a wing which this installation lacks."""
    return [name for name, place in NAMES[protocol].items() if has(place)]


def has(place: str) -> bool:
    """False if ``place``, "module:name" or "module", is in a wing that this installation of transduce does not have."""
    parts = place.partition(":")[0].split(".")
    if ".".join(parts[:2]) != WINGS:
        return True
    try:
        return importlib.util.find_spec(".".join(parts[:3])) is not None
    except ModuleNotFoundError:
        return False


def service(name: str) -> Any:
    """The function of a wing that does what the hall needs, by its name in ``SERVICES``. Raises MissingWingError if
    this installation does not have the wing.
    """
    return imported(SERVICES[name], f"the service {name!r}")


def imported(place: str, what: str) -> Any:
    """The class, function or module at a ``place``, "module:name" or "module". ``what`` names it in messages.

    Raises MissingWingError if the place is in a wing that this installation of transduce does not have.
    """
    path, _, name = place.partition(":")
    try:
        module = importlib.import_module(path)
    except ModuleNotFoundError as error:
        if not f"{error.name}.".startswith(f"{WINGS}."):
            raise
        wing = path.removeprefix(WINGS).split(".")[1]
        raise MissingWingError(
            f"{what} belongs to the wing {wing!r}, which this installation of transduce does not have: install the "
            "whole package again (`pip install --force-reinstall --no-deps transduce`)"
        ) from error
    return getattr(module, name) if name else module


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
