// Reads recordings and pictures. signals.h explains the letters; the laws are those of wings/signals/tokenizers.

#include "signals.h"

#include <cmath>
#include <complex>
#include <cstring>

#include "refusal.h"

namespace transduce {

const double HALF = 65504, LEAST_SCALE = 1e-3;  // the largest number of half precision, and the smallest divisor
const double QUIET = 1e-8;                      // added to each energy
const int64_t MOST_NUMBERS = 1 << 28;           // of a signal
const double LOUDEST = 2147483648.0;            // of a sample
const int64_t LONGEST_WINDOW = 1 << 16;         // samples; Python allows more, which no file of sound needs
const double PI = 3.14159265358979323846;

enum SignalType { BYTES = 0, SHORTS = 1, FLOATS = 2, STEPS = 3 };

// The nearest number of half precision.
static float halved(double x) {
    int exponent;
    std::frexp(x, &exponent);
    const double unit = std::ldexp(1.0, std::max(exponent, -13) - 11);
    return static_cast<float>(std::nearbyint(x / unit) * unit);
}

// ---------------------------------------------------------------- pictures

typedef std::vector<uint8_t> Pixels;

// The weights by which Pillow's bilinear filter makes `to` pixels of `from`, as whole numbers with 22 bits after the point.
struct Resampling {
    struct Span {
        int64_t first;
        std::vector<int32_t> weights;
    };
    std::vector<Span> spans;

    Resampling(int64_t from, int64_t to) {
        const double scale = static_cast<double>(from) / static_cast<double>(to), wide = std::max(scale, 1.0);
        for (int64_t i = 0; i < to; ++i) {
            const double centre = (static_cast<double>(i) + 0.5) * scale;
            const int64_t first = std::max<int64_t>(0, static_cast<int64_t>(centre - wide + 0.5));
            const int64_t last = std::min<int64_t>(from, static_cast<int64_t>(centre + wide + 0.5));
            std::vector<double> parts;
            double sum = 0;
            for (int64_t x = first; x < last; ++x) {
                parts.push_back(std::max(0.0, 1 - std::fabs((static_cast<double>(x) - centre + 0.5) * (1.0 / wide))));
                sum += parts.back();
            }
            Span span = {first, {}};
            for (double part : parts)
                span.weights.push_back(static_cast<int32_t>(0.5 + (sum != 0 ? part / sum : part) * (1 << 22)));
            spans.push_back(std::move(span));
        }
    }
};

// Resizes one axis of pixels [outer, from, inner] to [outer, to, inner].
static Pixels resized(const Pixels& pixels, int64_t outer, int64_t from, int64_t inner, int64_t to) {
    if (from == to) return pixels;
    const Resampling how(from, to);
    Pixels found(static_cast<size_t>(outer * to * inner));
    for (int64_t o = 0; o < outer; ++o)
        for (int64_t i = 0; i < to; ++i) {
            const Resampling::Span& span = how.spans[i];
            for (int64_t n = 0; n < inner; ++n) {
                int64_t sum = 1 << 21;
                for (size_t k = 0; k < span.weights.size(); ++k)
                    sum += static_cast<int64_t>(pixels[(o * from + span.first + static_cast<int64_t>(k)) * inner + n]) *
                           span.weights[k];
                found[(o * to + i) * inner + n] = static_cast<uint8_t>(std::min<int64_t>(255, std::max<int64_t>(0, sum >> 22)));
            }
        }
    return found;
}

class PictureReader : public SignalReader {
  public:
    PictureReader(const Json& described, const Json& unit)
        : height_(unit.number_in("height", 1, LARGEST_NUMBER)), most_(unit.number_in("pixels", 1, LARGEST_NUMBER)),
          invert_(unit.truth_of("invert")) {
        channels_ = unit.number_in("channels", 1, 3);
        if (channels_ == 2) throw Refusal("channels = 2: pictures have 1 (grey) or 3 (red, green, blue)");
        size_ = height_;
        if (unit.find("width") != nullptr) width_ = unit.number_in("width", 1, LARGEST_NUMBER);
        normalisation_ = static_cast<Normalisation>(unit.choice("normalisation", {"none", "corpus", "picture"}));
        read_moments(described);
    }

  protected:
    Steps steps(const TransduceSignal& signal) const override {
        const int64_t H = signal.rows, W = signal.columns;
        if (signal.type != BYTES || (signal.channels != 1 && signal.channels != 3))
            throw Refusal("a picture was expected: bytes of 1 (grey) or 3 (red, green, blue) channels");
        check_size(W, H, "has ");
        const int64_t wide =
            width_ ? width_
                   : std::max<int64_t>(1, static_cast<int64_t>(std::nearbyint(double(W) * double(height_) / double(H))));
        check_size(wide, height_, "would have ");
        Pixels pixels = toned(static_cast<const uint8_t*>(signal.numbers), H * W, signal.channels);
        // Pillow 13 resizes the height first where this is faster; then a pixel may differ by 1.
        pixels = resized(pixels, H, W, channels_, wide);
        pixels = resized(pixels, 1, H, wide * channels_, height_);
        Steps found = {channels_ * height_, std::vector<float>(static_cast<size_t>(wide * channels_ * height_))};
        for (int64_t y = 0; y < height_; ++y)
            for (int64_t x = 0; x < wide; ++x)
                for (int64_t c = 0; c < channels_; ++c) {
                    const float value = static_cast<float>(pixels[(y * wide + x) * channels_ + c]) / 255.0f;
                    found.numbers[(x * channels_ + c) * height_ + y] = invert_ ? 1 - value : value;
                }
        return found;
    }

  private:
    int64_t height_, width_ = 0, most_;
    bool invert_;

    void check_size(int64_t wide, int64_t high, const char* verb) const {
        if (wide > most_ / high)
            throw Refusal("the picture " + (verb + std::to_string(wide)) + " x " + std::to_string(high) +
                          " pixels, more than pixels = " + std::to_string(most_) + " of the unit");
    }

    // With as many channels as the model reads.
    Pixels toned(const uint8_t* pixels, int64_t count, int64_t channels) const {
        if (channels == channels_) return Pixels(pixels, pixels + count * channels);
        Pixels found(static_cast<size_t>(count * channels_));
        for (int64_t i = 0; i < count; ++i)
            if (channels == 3)
                found[i] = static_cast<uint8_t>(
                    (19595 * pixels[3 * i] + 38470 * pixels[3 * i + 1] + 7471 * pixels[3 * i + 2] + 32768) >> 16);
            else
                std::fill(found.begin() + 3 * i, found.begin() + 3 * i + 3, pixels[i]);
        return found;
    }
};

// ---------------------------------------------------------------- recordings

// Log-mel energies (wings/signals/tokenizers/mel.py). The transform has double precision there and here.
class LogMel {
  public:
    LogMel(int64_t rate, int64_t mels, int64_t window, int64_t hop, double emphasis)
        : mels_(mels), window_(window), hop_(hop), emphasis_(static_cast<float>(emphasis)),
          first_(static_cast<float>(1 - emphasis)) {
        while (points_ < window) points_ *= 2;
        const int64_t most = 16 * points_;
        while (!has_bands(rate))
            if ((points_ *= 2) > most) throw Refusal("mels = " + std::to_string(mels) + ": the bands are too narrow");
        for (int64_t n = 0; n < window; ++n) hann_.push_back(0.5 - 0.5 * std::cos(2 * PI * double(n) / double(window)));
        for (int64_t k = 0; k < points_ / 2; ++k)
            turns_.push_back(std::polar(1.0, -2 * PI * static_cast<double>(k) / static_cast<double>(points_)));
    }

    Steps operator()(const std::vector<float>& samples) const {
        const int64_t N = static_cast<int64_t>(samples.size());
        std::vector<float> x(static_cast<size_t>(std::max(N, window_)));
        x[0] = samples[0] * first_;
        for (int64_t n = 1; n < N; ++n) x[n] = samples[n] - emphasis_ * samples[n - 1];
        Steps found = {mels_, {}};
        std::vector<std::complex<double>> wave(static_cast<size_t>(points_));
        for (int64_t start = 0; start + window_ <= static_cast<int64_t>(x.size()); start += hop_) {
            std::fill(wave.begin(), wave.end(), 0.0);
            for (int64_t n = 0; n < window_; ++n) wave[n] = static_cast<double>(x[start + n]) * hann_[n];
            transform(wave);
            for (const Band& band : bands_) {
                double energy = 0;
                for (size_t k = 0; k < band.weights.size(); ++k)
                    energy += band.weights[k] * std::norm(wave[band.first + static_cast<int64_t>(k)]);
                found.numbers.push_back(static_cast<float>(std::log(QUIET + energy)));
            }
        }
        return found;
    }

  private:
    struct Band {
        int64_t first;
        std::vector<double> weights;
    };
    int64_t mels_, window_, hop_, points_ = 1;
    float emphasis_, first_;
    std::vector<double> hann_;
    std::vector<std::complex<double>> turns_;
    std::vector<Band> bands_;

    // Makes the triangles over the frequencies. False if one has no frequency.
    bool has_bands(int64_t rate) {
        bands_.clear();
        const double top = 2595 * std::log10(1 + double(rate) / 2 / 700);
        std::vector<double> edges;
        for (int64_t m = 0; m < mels_ + 2; ++m)
            edges.push_back(700 * (std::pow(10, top * double(m) / double(mels_ + 1) / 2595) - 1));
        for (int64_t m = 0; m < mels_; ++m) {
            const double low = edges[m], centre = edges[m + 1], high = edges[m + 2];
            const double step = double(rate) / double(points_);
            Band band = {std::max<int64_t>(0, static_cast<int64_t>(low / step)), {}};
            for (int64_t f = band.first; f <= points_ / 2 && double(f) * step <= high; ++f) {
                const double hertz = double(f) * step;
                band.weights.push_back(
                    std::max(0.0, std::min((hertz - low) / (centre - low), (high - hertz) / (high - centre))));
            }
            if (*std::max_element(band.weights.begin(), band.weights.end()) <= 0) return false;
            bands_.push_back(std::move(band));
        }
        return true;
    }

    // The discrete Fourier transform, in place.
    void transform(std::vector<std::complex<double>>& wave) const {
        for (int64_t i = 1, j = 0; i < points_; ++i) {
            int64_t bit = points_ / 2;
            for (; j & bit; bit /= 2) j ^= bit;
            j ^= bit;
            if (i < j) std::swap(wave[i], wave[j]);
        }
        for (int64_t half = 1; half < points_; half *= 2)
            for (int64_t first = 0; first < points_; first += 2 * half)
                for (int64_t k = 0; k < half; ++k) {
                    const std::complex<double> turn = turns_[k * (points_ / 2 / half)], b = wave[first + k + half];
                    const std::complex<double> turned = {
                        b.real() * turn.real() - b.imag() * turn.imag(), b.real() * turn.imag() + b.imag() * turn.real()};
                    const std::complex<double> a = wave[first + k];
                    wave[first + k] = a + turned;
                    wave[first + k + half] = a - turned;
                }
    }
};

class SoundReader : public SignalReader {
  public:
    SoundReader(const Json& described, const Json& unit)
        : rate_(unit.number_in("rate", 1, LARGEST_NUMBER)), seconds_(unit.real_in("seconds", 0, 1e9)),
          mel_(mel_of(unit, rate_)) {
        const int64_t mels = unit.number_in("mels", 1, 1000);
        const size_t kind = unit.choice("normalisation", {"none", "corpus", "utterance", "loudness", "mean"});
        normalisation_ = kind < 2 ? static_cast<Normalisation>(kind) : OWN;
        centred_ = kind == 4;
        channels_ = kind > 2 ? 1 : mels;
        size_ = mels / channels_;
        if (unit.find("range") != nullptr) range_ = unit.real_in("range", 0, 1e9);
        if (unit.find("trim") != nullptr) trim_ = unit.real_in("trim", 0, 1e9);
        if (unit.find("cepstra") != nullptr || unit.number_in("differences", 0, 2) != 0)
            throw Refusal("cepstra and differences are not in the engine: predict with the run itself");
        read_moments(described);
    }

  protected:
    Steps steps(const TransduceSignal& signal) const override {
        if ((signal.type != SHORTS && signal.type != FLOATS) || signal.columns != 1)
            throw Refusal("a recording was expected: samples that are integers of 16 bits, or float32");
        if (signal.rate != rate_)
            throw Refusal("the recording has " + std::to_string(signal.rate) + " samples a second, and the model reads " +
                          std::to_string(rate_) + ": convert it, such as with ffmpeg -i IN -ar " + std::to_string(rate_) +
                          " OUT.wav");
        if (static_cast<double>(signal.rows) > seconds_ * static_cast<double>(rate_))
            throw Refusal("the recording has " + std::to_string(signal.rows / rate_) +
                          " seconds, more than the model reads: cut it into parts");
        Steps found = mel_(mixed(signal));
        if (range_ > 0) {
            const float floor =
                *std::max_element(found.numbers.begin(), found.numbers.end()) - static_cast<float>(nepers(range_));
            for (float& x : found.numbers) x = std::max(x, floor);
        }
        if (trim_ > 0) trim(found);
        if (centred_) centre(found);
        return found;
    }

  private:
    int64_t rate_;
    double seconds_, range_ = 0, trim_ = 0;
    bool centred_ = false;
    LogMel mel_;

    static LogMel mel_of(const Json& unit, int64_t rate) {
        const auto count = [&](const char* name) {
            const double found = std::nearbyint(unit.real_in(name, 0, 1e9) * static_cast<double>(rate));
            if (!(found >= 2 && found <= static_cast<double>(LONGEST_WINDOW)))
                throw Refusal(
                    std::string(name) + ": two samples at least were expected, at most " + std::to_string(LONGEST_WINDOW));
            return static_cast<int64_t>(found);
        };
        return LogMel(rate, unit.number_in("mels", 1, 1000), count("window"), count("hop"), unit.real_in("emphasis", 0, 1));
    }

    static double nepers(double decibels) { return decibels * std::log(10.0) / 10; }

    // The mean of the channels.
    static std::vector<float> mixed(const TransduceSignal& signal) {
        std::vector<float> found(static_cast<size_t>(signal.rows));
        for (int64_t n = 0; n < signal.rows; ++n) {
            float sum = 0;
            for (int64_t c = 0; c < signal.channels; ++c) {
                float sample;
                const size_t at = static_cast<size_t>(n * signal.channels + c);
                if (signal.type == SHORTS) {
                    int16_t whole;
                    std::memcpy(&whole, static_cast<const uint8_t*>(signal.numbers) + 2 * at, sizeof whole);
                    sample = static_cast<float>(whole) / 32768.0f;
                } else {
                    std::memcpy(&sample, static_cast<const uint8_t*>(signal.numbers) + 4 * at, sizeof sample);
                }
                if (!(std::fabs(sample) <= LOUDEST))
                    throw Refusal(
                        "the recording has a sample that is not finite, or too large, at " + std::to_string(n) + ": mend it");
                sum += sample;
            }
            found[n] = sum / static_cast<float>(signal.channels);
        }
        return found;
    }

    // Only the frames from the first to the last loud one.
    void trim(Steps& steps) const {
        const int64_t D = steps.width, S = steps.length();
        const float largest = *std::max_element(steps.numbers.begin(), steps.numbers.end());
        std::vector<double> power(static_cast<size_t>(S));
        for (int64_t s = 0; s < S; ++s)
            for (int64_t d = 0; d < D; ++d) power[s] += std::exp(steps.numbers[s * D + d] - largest);
        const double least = *std::max_element(power.begin(), power.end()) * std::exp(-nepers(trim_));
        int64_t first = 0, last = S - 1;
        while (first < last && !(power[first] >= least)) ++first;
        while (last > first && !(power[last] >= least)) --last;
        steps.numbers = std::vector<float>(steps.numbers.begin() + first * D, steps.numbers.begin() + (last + 1) * D);
    }

    // Each band has mean 0.
    static void centre(Steps& steps) {
        const int64_t D = steps.width, S = steps.length();
        std::vector<float> mean(static_cast<size_t>(D));
        for (int64_t s = 0; s < S; ++s)
            for (int64_t d = 0; d < D; ++d) mean[d] += steps.numbers[s * D + d];
        for (int64_t s = 0; s < S; ++s)
            for (int64_t d = 0; d < D; ++d) steps.numbers[s * D + d] -= mean[d] / static_cast<float>(S);
    }
};

// ---------------------------------------------------------------- what both share

std::unique_ptr<SignalReader> SignalReader::read(const Json& described) {
    const Json& unit = described.table("record").table("signal");
    std::unique_ptr<SignalReader> found;
    if (unit.choice("type", {"picture", "sound"}) == 0)
        found.reset(new PictureReader(described, unit));
    else
        found.reset(new SoundReader(described, unit));
    described.number_in("size", found->channels_ * found->size_, found->channels_ * found->size_);
    return found;
}

void SignalReader::read_moments(const Json& described) {
    if (normalisation_ != CORPUS) return;
    mean_ = described.table("record").reals_in("mean", -1e30, 1e30);
    scale_ = described.table("record").reals_in("scale", 1e-30, 1e30);
    if (static_cast<int64_t>(mean_.size()) != channels_ || mean_.size() != scale_.size())
        throw Refusal("mean and scale of its signals have other sizes than the channels");
}

Steps read_steps(const SignalReader* reader, int64_t width, const TransduceSignal& signal) {
    for (int64_t size : {signal.rows, signal.columns, signal.channels})
        if (size < 1 || size > MOST_NUMBERS) throw Refusal("the signal is empty, or too large");
    if (signal.rows > MOST_NUMBERS / signal.columns / signal.channels || signal.numbers == nullptr)
        throw Refusal("the signal is empty, or too large");
    if (signal.type != STEPS && reader == nullptr)
        throw Refusal("this file is a part of an export to native and reads no signals: name the folder of the export");
    if (signal.type != STEPS) return (*reader)(signal);
    if (signal.columns != width || signal.channels != 1)
        throw Refusal("steps of " + std::to_string(signal.columns) + " numbers: " + std::to_string(width) + " were expected");
    Steps found = {width, std::vector<float>(static_cast<size_t>(signal.rows * width))};
    std::memcpy(found.numbers.data(), signal.numbers, found.numbers.size() * sizeof(float));
    for (float x : found.numbers)
        if (!std::isfinite(x)) throw Refusal("the steps have numbers that are not finite");
    return found;
}

Steps SignalReader::operator()(const TransduceSignal& signal) const {
    Steps found = steps(signal);
    normalise(found);
    return found;
}

void SignalReader::normalise(Steps& steps) const {
    const int64_t D = steps.width, S = steps.length();
    std::vector<double> mean(static_cast<size_t>(channels_)), scale(static_cast<size_t>(channels_), 1.0);
    if (normalisation_ == CORPUS) {
        mean = mean_;
        scale = scale_;
    } else if (normalisation_ == OWN) {
        const double count = static_cast<double>(S * size_);
        std::vector<double> squares(static_cast<size_t>(channels_));
        for (int64_t i = 0; i < S * D; ++i) mean[i % D / size_] += steps.numbers[i];
        for (double& each : mean) each /= count;
        for (int64_t i = 0; i < S * D; ++i) {
            const double x = steps.numbers[i] - mean[i % D / size_];
            squares[i % D / size_] += x * x;
        }
        for (int64_t c = 0; c < channels_; ++c) scale[c] = std::max(std::sqrt(squares[c] / count), LEAST_SCALE);
    }
    for (int64_t i = 0; i < S * D; ++i) {
        const double x = (steps.numbers[i] - mean[i % D / size_]) / scale[i % D / size_];
        if (!(std::fabs(x) <= HALF)) throw Refusal("the signal has a number that is too large after its normalisation");
        steps.numbers[i] = halved(x);
    }
}

}  // namespace transduce
