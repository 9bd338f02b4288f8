/* Operators of com.microsoft (version 1) that cannot be decomposed into ONNX operators: Inverse, NGramRepeatBlock,
 * MurmurHash3, CropAndResize, WordConvEmbedding. They are defined in "ContribOperators.md" of ONNX Runtime. */
#include "inlay/check.h"
#include "operators/args.h"
#include "simd/convert.h"
#include "operators/operators.h"
#include <math.h>
#include <string.h>

#define MICROSOFT .domain = "com.microsoft"

/* The workspace has two matrices of doubles per worker. */
static inlay_status shape_inverse(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const kit_tensor *input = &plan->in[0];
    int64_t rows;

    (void)state;
    if (input->rank < 2 || input->dims[input->rank - 1] != input->dims[input->rank - 2])
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "an inverse needs square matrices in the last two dims");
    rows = input->dims[input->rank - 1];
    if (rows > INT16_MAX || __builtin_mul_overflow((uint64_t)(rows * rows) * 2 * sizeof(double),
                                                   (uint64_t)plan->max_threads, &plan->workspace_bytes))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "a matrix of %lld rows is too large", (long long)rows);
    return INLAY_OK;
}

static void swap_rows(double *matrix, int64_t size, int64_t first, int64_t second)
{
    for (int64_t j = 0; first != second && j < size; j++) {
        double value = matrix[first * size + j];
        matrix[first * size + j] = matrix[second * size + j];
        matrix[second * size + j] = value;
    }
}

/* Gauss-Jordan elimination with pivoting: matrix becomes the identity, and output its original inverse. A singular
 * matrix gives infinities and NaN. */
static void invert(double *matrix, double *output, int64_t size)
{
    for (int64_t i = 0; i < size * size; i++)
        output[i] = i % (size + 1) == 0;
    for (int64_t k = 0; k < size; k++) {
        int64_t pivot = k;
        double scale;

        for (int64_t i = k + 1; i < size; i++)
            pivot = fabs(matrix[i * size + k]) > fabs(matrix[pivot * size + k]) ? i : pivot;
        swap_rows(matrix, size, k, pivot);
        swap_rows(output, size, k, pivot);
        scale = 1 / matrix[k * size + k];
        for (int64_t j = 0; j < size; j++) {
            matrix[k * size + j] *= scale;
            output[k * size + j] *= scale;
        }
        for (int64_t i = 0; i < size; i++) {
            const double factor = matrix[i * size + k];

            for (int64_t j = 0; i != k && j < size; j++) {
                matrix[i * size + j] -= factor * matrix[k * size + j];
                output[i * size + j] -= factor * output[k * size + j];
            }
        }
    }
}

static inlay_status run_matrices(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const kit_tensor *input = &call->in[0];
    const int64_t size = input->dims[input->rank - 1];
    double *matrix = (double *)call->workspace + (int64_t)worker * 2 * size * size, *output = matrix + size * size;

    INLAY_CHECK(call->workspace != NULL && size > 0);
    for (int64_t i = begin; i < end; i++) {
        convert_to_f64(matrix, input->dtype, input->data, i * size * size, size * size);
        invert(matrix, output, size);
        convert_from_f64(call->out[0].dtype, call->out[0].data, i * size * size, size * size, output, 0);
    }
    return INLAY_OK;
}

static inlay_status run_inverse(const kit_call *call)
{
    const kit_tensor *input = &call->in[0];
    const int64_t size = input->dims[input->rank - 1];

    return input->count == 0 ? INLAY_OK
                             : kit_parallel(call, input->count / (size * size), 32768 / (size * size * size + 1) + 1,
                                            run_matrices, (void *)(uintptr_t)call);
}

static inlay_status prepare_block(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const int64_t size = kit_attr_int(node->info, "ngram_size", 0);
    inlay_status status;

    if (size <= 0)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "ngram_size is %lld; it must be at least 1", (long long)size);
    status = arg_allocate_state(sizeof(int64_t), out_state, diag);
    if (status == INLAY_OK)
        *(int64_t *)*out_state = size;
    return status;
}

static inlay_status shape_block(const void *state, kit_plan *plan, inlay_diag *diag)
{
    (void)state;
    if (plan->in[0].rank != 2 || plan->in[1].rank != 2 || plan->in[0].dims[0] != plan->in[1].dims[0])
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "input_ids [batch, length] and scores [batch, words] are needed");
    return INLAY_OK;
}

/* NGramRepeatBlock: sets the score of every word that would complete an n-gram of the row again to -infinity. */
static inlay_status run_block(const kit_call *call)
{
    const int64_t size = *(const int64_t *)call->state, length = call->in[0].dims[1], words = call->in[1].dims[1];
    float *scores = call->out[0].data;

    if (call->in[1].count > 0 && scores != call->in[1].data)
        memcpy(scores, call->in[1].data, (size_t)call->in[1].count * sizeof *scores);
    for (int64_t batch = 0; batch < call->in[0].dims[0]; batch++, scores += words) {
        const int64_t *ids = (const int64_t *)call->in[0].data + batch * length;

        for (int64_t i = 0; i + size <= length; i++) {
            const int64_t next = ids[i + size - 1];

            if (memcmp(ids + i, ids + length - (size - 1), (size_t)(size - 1) * sizeof *ids) != 0)
                continue;
            if (next < 0 || next >= words)
                return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "input_ids has %lld, outside [0, %lld)",
                                  (long long)next, (long long)words);
            scores[next] = -INFINITY;
        }
    }
    return INLAY_OK;
}

static inlay_status prepare_hash(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_status status = arg_allocate_state(sizeof(uint32_t), out_state, diag);

    if (status == INLAY_OK)
        *(uint32_t *)*out_state = (uint32_t)kit_attr_int(node->info, "seed", 0);
    return status;
}

static uint32_t rotate(uint32_t value, int by)
{
    return value << by | value >> (32 - by);
}

/* Austin Appleby's MurmurHash3 for 32 bits. */
static uint32_t murmur(const void *data, size_t bytes, uint32_t hash)
{
    const uint8_t *at = data;
    uint32_t word;

    for (size_t i = bytes / 4; i > 0; i--, at += 4) {
        memcpy(&word, at, 4);
        hash = rotate(hash ^ rotate(word * 0xcc9e2d51u, 15) * 0x1b873593u, 13) * 5 + 0xe6546b64u;
    }
    word = 0;
    for (size_t i = bytes % 4; i > 0; i--)
        word = word << 8 | at[i - 1];
    if (bytes % 4 != 0)
        hash ^= rotate(word * 0xcc9e2d51u, 15) * 0x1b873593u;
    hash ^= (uint32_t)bytes;
    hash = (hash ^ hash >> 16) * 0x85ebca6bu;
    hash = (hash ^ hash >> 13) * 0xc2b2ae35u;
    return hash ^ hash >> 16;
}

static inlay_status run_hash(const kit_call *call)
{
    const kit_tensor *input = &call->in[0];
    const uint32_t seed = *(const uint32_t *)call->state;
    const size_t width = inlay_dtype_bits(input->dtype) / 8;
    uint32_t *output = call->out[0].data;

    for (int64_t i = 0; i < input->count; i++) {
        if (input->dtype == INLAY_STRING) {
            const inlay_str *text = (const inlay_str *)input->data + i;

            output[i] = murmur(text->data, (size_t)text->bytes, seed);
        } else {
            output[i] = murmur((const char *)input->data + (size_t)i * width, width, seed);
        }
    }
    return INLAY_OK;
}

typedef struct crop_state {
    bool nearest;
    float outside;
} crop_state;

static inlay_status prepare_crop(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const char *mode = kit_attr_string(node->info, "mode", "bilinear");
    inlay_status status;

    if (strcmp(mode, "bilinear") != 0 && strcmp(mode, "nearest") != 0)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "mode '%s' is neither bilinear nor nearest", mode);
    status = arg_allocate_state(sizeof(crop_state), out_state, diag);
    if (status == INLAY_OK)
        *(crop_state *)*out_state =
            (crop_state){ strcmp(mode, "nearest") == 0, (float)kit_attr_float(node->info, "extrapolation_value", 0) };
    return status;
}

static inlay_status shape_crop(const void *state, kit_plan *plan, inlay_diag *diag)
{
    (void)state;
    if (plan->in[0].rank != 4 || plan->in[1].rank != 2 || plan->in[1].dims[1] != 4 || plan->in[2].rank != 1 ||
        plan->in[2].dims[0] != plan->in[1].dims[0])
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "an image [N, C, H, W], boxes [boxes, 4] and an index of each box are needed");
    return INLAY_OK;
}

/* Returns the coordinate, in an image of `size` rows (or columns), of sample `index` of `count`, which are evenly
 * spaced from `low` to `high` (relative to the image). */
static float crop_coordinate(float low, float high, int64_t size, int64_t index, int64_t count)
{
    if (count == 1)
        return 0.5f * (low + high) * (float)(size - 1);
    return low * (float)(size - 1) + (float)index * ((high - low) * (float)(size - 1) / (float)(count - 1));
}

static float sample(const float *image, int64_t height, int64_t width, float y, float x, const crop_state *state)
{
    int64_t top, left, bottom, right;
    float fy, fx, above, below;

    if (!(y >= 0) || y > (float)(height - 1) || !(x >= 0) || x > (float)(width - 1))
        return state->outside;
    if (state->nearest)
        return image[(int64_t)roundf(y) * width + (int64_t)roundf(x)];
    top = (int64_t)floorf(y);
    left = (int64_t)floorf(x);
    bottom = (int64_t)ceilf(y);
    right = (int64_t)ceilf(x);
    fy = y - (float)top;
    fx = x - (float)left;
    above = image[top * width + left] + (image[top * width + right] - image[top * width + left]) * fx;
    below = image[bottom * width + left] + (image[bottom * width + right] - image[bottom * width + left]) * fx;
    return above + (below - above) * fy;
}

static inlay_status run_boxes(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const kit_tensor *input = &call->in[0], *output = &call->out[0];
    const int64_t channels = input->dims[1], height = input->dims[2], width = input->dims[3], rows = output->dims[2],
                  columns = output->dims[3];
    const int32_t *images = call->in[2].data;

    (void)worker;
    for (int64_t unit = begin; unit < end; unit++) { /* one channel of one box */
        const float *box = (const float *)call->in[1].data + unit / channels * 4;
        const int64_t image = images[unit / channels];
        INLAY_CHECK(image >= 0 && image < input->dims[0]);
        const float *from = (const float *)input->data + (image * channels + unit % channels) * height * width;
        float *to = (float *)output->data + unit * rows * columns;

        for (int64_t i = 0; i < rows; i++) {
            const float y = crop_coordinate(box[0], box[2], height, i, rows);

            for (int64_t j = 0; j < columns; j++)
                *to++ = sample(from, height, width, y, crop_coordinate(box[1], box[3], width, j, columns), call->state);
        }
    }
    return INLAY_OK;
}

static inlay_status run_crop(const kit_call *call)
{
    const kit_tensor *input = &call->in[0], *output = &call->out[0];
    const int32_t *images = call->in[2].data;

    for (int64_t i = 0; i < call->in[2].count; i++)
        if (images[i] < 0 || images[i] >= input->dims[0])
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "batch_indices[%lld] is %d, outside [0, %lld)",
                              (long long)i, (int)images[i], (long long)input->dims[0]);
    if (input->dims[2] == 0 || input->dims[3] == 0 || output->count == 0)
        return output->count == 0 ? INLAY_OK
                                  : inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "an empty image cannot be cropped");
    return kit_parallel(call, output->dims[0] * output->dims[1],
                        32768 / (output->dims[2] * output->dims[3] * 16 + 1) + 1, run_boxes, (void *)(uintptr_t)call);
}

static inlay_status prepare_embedding(const kit_node *node, void **out_state, inlay_diag *diag)
{
    static const char *const names[] = { "embedding_size", "conv_window_size", "char_embedding_size" };
    inlay_status status = arg_allocate_state(3 * sizeof(int64_t), out_state, diag);

    for (int i = 0; status == INLAY_OK && i < 3; i++)
        ((int64_t *)*out_state)[i] = kit_attr_int(node->info, names[i], -1);
    return status;
}

/* Inputs: words [words, letters], filters [size, 1, window, depth], their bias [size], letters [count, depth]. */
static inlay_status shape_embedding(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const kit_tensor *words = &plan->in[0], *filters = &plan->in[1], *bias = &plan->in[2], *letters = &plan->in[3];
    const int64_t *want = state;

    if (words->rank != 2 || filters->rank != 4 || bias->rank != 1 || letters->rank != 2 || filters->dims[1] != 1 ||
        bias->dims[0] != filters->dims[0] || letters->dims[1] != filters->dims[3])
        return inlay_fail(
            diag, INLAY_SHAPE_MISMATCH,
            "words [N, L], filters [size, 1, window, depth], a bias [size] and letters [count, depth] are "
            "needed");
    if ((want[0] >= 0 && want[0] != filters->dims[0]) || (want[1] >= 0 && want[1] != filters->dims[2]) ||
        (want[2] >= 0 && want[2] != filters->dims[3]))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the filters are %lld of %lld x %lld, the attributes differ",
                          (long long)filters->dims[0], (long long)filters->dims[2], (long long)filters->dims[3]);
    if (filters->dims[2] < 1 || filters->dims[2] > words->dims[1])
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "a window of %lld letters does not fit words of %lld",
                          (long long)filters->dims[2], (long long)words->dims[1]);
    return INLAY_OK;
}

/* Returns the number of letters of a word. Only codes above 0 are letters; a word whose first code is not a letter is
 * empty. */
static int64_t letters_of(const int32_t *word, int64_t most)
{
    int64_t count = 0;

    for (int64_t i = 0; i < most && word[0] > 0; i++)
        count += word[i] > 0;
    return count;
}

/* Computes, for words [begin, end), the maximum of each filter over all positions of the word; 0 for an empty word. */
static inlay_status run_words(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const kit_tensor *words = &call->in[0], *filters = &call->in[1];
    const int64_t max_letters = words->dims[1], size = filters->dims[0], window = filters->dims[2],
                  depth = filters->dims[3];
    const float *letters = call->in[3].data, *weights = filters->data, *bias = call->in[2].data;

    (void)worker;
    for (int64_t index = begin; index < end; index++) {
        const int32_t *word = (const int32_t *)words->data + index * max_letters;
        const int64_t count = letters_of(word, max_letters), positions = count == 0       ? 0
                                                                         : count < window ? 1
                                                                                          : count - window + 1;
        float *output = (float *)call->out[0].data + index * size;

        for (int64_t filter = 0; filter < size; filter++) {
            float best = -INFINITY;

            for (int64_t position = 0; position < positions; position++) {
                float sum = 0;

                for (int64_t tap = 0; tap < window; tap++)
                    for (int64_t channel = 0; channel < depth; channel++)
                        sum += letters[word[position + tap] * depth + channel] *
                               weights[(filter * window + tap) * depth + channel];
                best = sum > best || sum != sum ? sum : best;
            }
            output[filter] = positions == 0 ? 0 : tanhf(best + bias[filter]);
        }
    }
    return INLAY_OK;
}

static inlay_status run_embedding(const kit_call *call)
{
    const kit_tensor *words = &call->in[0], *filters = &call->in[1];

    for (int64_t i = 0; i < words->count; i++) {
        const int32_t letter = ((const int32_t *)words->data)[i];

        if (letter < 0 || letter >= call->in[3].dims[0])
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "letter %d is outside [0, %lld)", (int)letter,
                              (long long)call->in[3].dims[0]);
    }
    return kit_parallel(call, words->dims[0], 32768 / (filters->count * words->dims[1] + 1) + 1, run_words,
                        (void *)(uintptr_t)call);
}

static const kit_kernel kernels[] = {
    { MICROSOFT, .op_type = "Inverse", .since_max = 1, .shape = shape_inverse, .run = run_inverse },
    { MICROSOFT, .op_type = "NGramRepeatBlock", .since_max = 1, .prepare = prepare_block, .shape = shape_block,
      .run = run_block },
    { MICROSOFT, .op_type = "MurmurHash3", .since_max = 1, .prepare = prepare_hash, .run = run_hash },
    { MICROSOFT, .op_type = "CropAndResize", .since_max = 1, .in_types = { INLAY_DTYPE_BIT(INLAY_FLOAT) },
      .prepare = prepare_crop, .shape = shape_crop, .run = run_crop },
    { MICROSOFT, .op_type = "WordConvEmbedding", .since_max = 1, .prepare = prepare_embedding, .shape = shape_embedding,
      .run = run_embedding },
};
const kit_table reference_contributed = { kernels, KIT_COUNT(kernels) };
