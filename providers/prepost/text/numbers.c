/* numbers.c - onnxruntime-extensions' operators on floats: NegPos, Inverse, STFT, StftNorm. */
#include "common/fft.h"
#include "prepost/prepost.h"
#include "inlay/check.h"
#include <math.h>
#include <stdlib.h>

static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const double count = shapes->in[0].count >= 0 ? (double)shapes->in[0].count : 4096;
    const bool inverse = strcmp(kit_op_type(node), "Inverse") == 0;

    prepost_cost(cost, shapes->in[0].count >= 0,
                 node->info->output_count == 2 ? 0.5 * count + 500
                 : inverse                     ? pow(count, 1.5) + 500
                                               : 40 * count + 5000);
}

static inlay_status infer_both(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *input = in->inputs[0];
    inlay_status status = INLAY_OK;

    (void)ctx, (void)diag;
    for (uint32_t o = 0; o < 2 && prepost_knows_rank(input) && status == INLAY_OK; o++)
        status = prepost_set(in, o, input->rank, input->dims);
    return status;
}

static inlay_status run_negpos(const kit_call *call)
{
    const float *input = call->in[0].data;
    inlay_status status = INLAY_OK;

    for (uint32_t o = 0; o < 2; o++) {
        INLAY_TRY(kit_alloc_output(call, o, call->in[0].rank, call->in[0].dims));
        for (int64_t i = 0; kit_has_output(call, o) && i < call->in[0].count; i++)
            ((float *)call->out[o].data)[i] = (input[i] > 0) == (o == 1) ? input[i] : 0; /* NaN counts as negative */
    }
done:
    return status;
}

static inlay_status infer_inverse(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *input = in->inputs[0];
    const inlay_status status = prepost_want_rank(in, 0, 2, 2, "[n, n]", diag);

    (void)ctx;
    return status == INLAY_OK && prepost_knows_rank(input) ? prepost_set(in, 0, 2, input->dims) : status;
}

/* Gauss-Jordan elimination with partial pivoting, in double precision. a is [n, 2n], the matrix and the identity; false
 * if the matrix is singular. */
static bool invert(double *a, int64_t n)
{
    const int64_t width = 2 * n;

    INLAY_CHECK(n >= 0 && (n == 0 || a[n] == 1)); /* the first row of the identity */
    for (int64_t c = 0; c < n; c++) {
        int64_t best = c;

        for (int64_t r = c + 1; r < n; r++)
            best = fabs(a[r * width + c]) > fabs(a[best * width + c]) ? r : best;
        if (!(fabs(a[best * width + c]) > 0))
            return false;
        for (int64_t k = 0; best != c && k < width; k++) {
            const double swap = a[c * width + k];

            a[c * width + k] = a[best * width + k];
            a[best * width + k] = swap;
        }
        for (int64_t k = width; k-- > c;)
            a[c * width + k] /= a[c * width + c];
        for (int64_t r = 0; r < n; r++) {
            const double by = a[r * width + c];

            for (int64_t k = c; r != c && by != 0 && k < width; k++)
                a[r * width + k] -= by * a[c * width + k];
        }
    }
    return true;
}

enum { MAX_INVERSE = 8192 };

static inlay_status shape_inverse(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const kit_tensor *input = &plan->in[0];

    (void)state, (void)diag;
    if (input->rank == 2 && input->dims[0] > 0 && input->dims[0] <= MAX_INVERSE)
        plan->workspace_bytes = 2 * (uint64_t)input->dims[0] * (uint64_t)input->dims[0] * sizeof(double);
    return INLAY_OK;
}

static inlay_status run_inverse(const kit_call *call)
{
    const kit_tensor *input = &call->in[0];
    const int64_t n = input->rank == 2 ? input->dims[0] : 0;
    double *a = call->workspace;
    inlay_status status;

    if (input->rank != 2 || input->dims[1] != n || n > MAX_INVERSE)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                          "Inverse: the input must be a matrix [n, n] with n at most %d", MAX_INVERSE);
    INLAY_TRY(kit_alloc_output(call, 0, 2, input->dims));
    for (int64_t r = 0; r < n; r++) {
        for (int64_t c = 0; c < n; c++) {
            a[r * 2 * n + c] = (double)((const float *)input->data)[r * n + c];
            a[r * 2 * n + n + c] = c == r;
        }
    }
    if (!invert(a, n)) {
        status = inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "Inverse: the matrix is singular");
        goto done;
    }
    for (int64_t i = 0; i < n * n; i++)
        ((float *)call->out[0].data)[i] = (float)a[i / n * 2 * n + n + i % n];
done:
    return status;
}

enum { MAX_FFT = 1 << 20 };

static inlay_status infer_stft(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_dim dims[4] = { prepost_fixed(1), prepost_open(), prepost_open(), prepost_fixed(2) };
    const inlay_status status = prepost_want_rank(in, 0, 2, 2, "[1, samples]", diag);

    (void)ctx;
    return status == INLAY_OK ? prepost_set(in, 0, strcmp(in->node->op_type.data, "STFT") == 0 ? 4 : 3, dims) : status;
}

/* The only element of input i; 0 if the input does not have exactly one element. */
static int64_t only_element(const kit_call *call, uint32_t i)
{
    return call->in[i].count == 1 ? *(const int64_t *)call->in[i].data : 0;
}

/* Pads the samples with half a window of zeros at both ends and transforms each frame. The output is [bins, frames] of
 * squares, or [bins, frames, 2] of real and imaginary parts. */
static inlay_status transform(const kit_call *call, const struct fft *fft, bool squares, const int64_t dims[4],
                              int64_t hop, double *data)
{
    const float *input = call->in[0].data, *window = call->in[3].data;
    const int64_t samples = call->in[0].dims[1];
    float *to = call->out[0].data;
    inlay_status status = INLAY_OK;

    INLAY_CHECK(hop > 0 && dims[1] <= fft->n && call->in[3].count == fft->n);
    for (int64_t t = 0; t < dims[2] && status == INLAY_OK; t++) {
        for (int64_t i = 0; i < fft->n; i++) {
            const int64_t at = t * hop - fft->n / 2 + i;

            data[2 * i] = at >= 0 && at < samples ? (double)input[at] * (double)window[i] : 0;
            data[2 * i + 1] = 0;
        }
        fft_run(fft, false, data, data + 2 * fft->n);
        for (int64_t k = 0; k < dims[1]; k++) {
            const int64_t place = k * dims[2] + t;

            if (squares) {
                to[place] = (float)(data[2 * k] * data[2 * k] + data[2 * k + 1] * data[2 * k + 1]);
                continue;
            }
            to[2 * place] = (float)data[2 * k];
            to[2 * place + 1] = (float)data[2 * k + 1];
        }
        if (t % 64 == 63)
            status = kit_poll(call);
    }
    return status;
}

static inlay_status prepare_stft(const kit_node *node, void **out_state, inlay_diag *diag)
{
    int64_t *half = malloc(sizeof *half);

    if (half == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a transform");
    *half = kit_attr_int(node->info, "onesided", 0);
    *out_state = half;
    return INLAY_OK;
}

/* The transform of one length, the size of the window; all runs of these shapes share it. */
typedef struct stft_plan {
    struct fft fft;
    double tables[];
} stft_plan;

static inlay_status shape_stft(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const int64_t n = plan->in[3].count;
    stft_plan *made;

    (void)state;
    if (n < 2 || n > MAX_FFT) /* run refuses it */
        return INLAY_OK;
    made = kit_plan_new(plan, sizeof *made + fft_table_count(n) * sizeof made->tables[0]);
    if (made == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a transform");
    fft_init(&made->fft, n, made->tables);
    plan->workspace_bytes = ((size_t)(2 * n) + fft_scratch_count(&made->fft)) * sizeof(double);
    return INLAY_OK;
}

static inlay_status run_any_stft(const kit_call *call, bool squares)
{
    const int64_t n = only_element(call, 1), hop = only_element(call, 2),
                  samples = call->in[0].rank == 2 ? call->in[0].dims[1] : 0;
    const stft_plan *plan = call->plan;
    int64_t dims[4] = { 1, 0, 0, 2 };
    inlay_status status;

    if (call->in[0].rank != 2 || call->in[0].dims[0] != 1)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "the samples must be [1, samples]");
    if (n < 2 || n > MAX_FFT || hop < 1 || hop > n || only_element(call, 4) != n || call->in[3].count != n ||
        samples < n)
        return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT,
                          "n_fft must be 2 to %d and at most the %lld samples, hop_length 1 to n_fft, and frame_length "
                          "and the length "
                          "of the window equal to n_fft",
                          MAX_FFT, (long long)samples);
    dims[1] = *(const int64_t *)call->state != 0 ? n / 2 + 1 : n;
    dims[2] = (samples + n / 2 * 2 - n) / hop + 1;
    INLAY_CHECK(plan != NULL && plan->fft.n == n);
    status = kit_alloc_output(call, 0, squares ? 3 : 4, dims);
    return status == INLAY_OK ? transform(call, &plan->fft, squares, dims, hop, call->workspace) : status;
}

static inlay_status run_stft(const kit_call *call)
{
    return run_any_stft(call, false);
}

static inlay_status run_stft_norm(const kit_call *call)
{
    return run_any_stft(call, true);
}

static const int64_t one_dims[] = { 1 }, four_dims[] = { 4 }, square_dims[] = { 2, 2 }, sound_dims[] = { 1, 4 };
static const int64_t parts_dims[] = { 1, 3, 3, 2 }, norm_dims[] = { 1, 3, 3 }, four[] = { 4 }, two[] = { 2 };
static const float signs[] = { -1, 0, 2, -3 }, negative[] = { -1, 0, 0, -3 }, positive[] = { 0, 0, 2, 0 };
static const float matrix[] = { 1, 2, 3, 4 }, inverse[] = { -2, 1, 1.5f, -0.5f };
static const float sound[] = { 1, 2, 3, 4 }, flat[] = { 1, 1, 1, 1 };
/* The frames are 0 0 1 2, 1 2 3 4 and 3 4 0 0; each has the bins 0 to 2. */
static const float parts[] = { 3, 0, 10, 0, 7, 0, -1, 2, -2, 2, 3, -4, -1, 0, -2, 0, -1, 0 };
static const float squares[] = { 9, 100, 49, 5, 8, 25, 1, 4, 1 };

#define FLOATS(array, dims) PREPOST_VIEW(array, dims, INLAY_FLOAT)
static const inlay_tensor_view signs_in[] = { FLOATS(signs, square_dims) };
static const inlay_tensor_view signs_out[] = { FLOATS(negative, square_dims), FLOATS(positive, square_dims) };
static const inlay_tensor_view matrix_in[] = { FLOATS(matrix, square_dims) },
                               matrix_out[] = { FLOATS(inverse, square_dims) };
static const inlay_tensor_view sound_in[] = { FLOATS(sound, sound_dims), PREPOST_VIEW(four, one_dims, INLAY_INT64),
                                              PREPOST_VIEW(two, one_dims, INLAY_INT64), FLOATS(flat, four_dims),
                                              PREPOST_VIEW(four, one_dims, INLAY_INT64) };
static const inlay_tensor_view parts_out[] = { FLOATS(parts, parts_dims) },
                               squares_out[] = { FLOATS(squares, norm_dims) };
static const inlay_attr_info half[] = { PREPOST_ATTR_INT("onesided", 1) };
#define EXAMPLE(title, ins, outs) PREPOST_PLAIN_EXAMPLE(title, ins, outs, 1e-6)
static const inlay_op_example negpos_examples[] = { EXAMPLE("four numbers", signs_in, signs_out) };
static const inlay_op_example inverse_examples[] = { EXAMPLE("two by two", matrix_in, matrix_out) };
static const inlay_op_example stft_examples[] = { PREPOST_EXAMPLE("three frames", half, sound_in, parts_out, 1e-6) };
static const inlay_op_example norm_examples[] = { PREPOST_EXAMPLE("three frames", half, sound_in, squares_out, 1e-6) };

#define NUMBERS(name, type, sign, text, shapes, list, ...)                                                             \
    PREPOST_EXTENSION(name, type, sign, text, shapes, list, .cost = cost, .run = run_##name, __VA_ARGS__)
NUMBERS(negpos, "NegPos", "x:F -> negative:F, positive:F; F=float",
        "Separates the elements below 0 and those above 0 into two tensors; the other elements are 0.", infer_both,
        negpos_examples, .prepare = NULL)
NUMBERS(inverse, "Inverse", "x:F -> y:F; F=float", "Inverts a square matrix, in double precision.", infer_inverse,
        inverse_examples, .shape = shape_inverse)
NUMBERS(stft, "STFT", "x:F, n_fft:I, hop_length:I, window:F, frame_length:I -> y:F; F=float, I=int64; onesided:i=0",
        "Short-time Fourier transform of [1, samples], padded with half a window of zeros at both ends, as [1, bins, "
        "frames, 2].",
        infer_stft, stft_examples, .prepare = prepare_stft, .shape = shape_stft)
NUMBERS(stft_norm, "StftNorm",
        "x:F, n_fft:I, hop_length:I, window:F, frame_length:I -> y:F; F=float, I=int64; onesided:i=0",
        "Squared magnitudes of the short-time Fourier transform of [1, samples], padded with half a window of zeros at "
        "both ends, as [1, bins, frames].",
        infer_stft, norm_examples, .prepare = prepare_stft, .shape = shape_stft)
