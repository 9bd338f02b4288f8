/* MelWeightMatrix: ONNX 17. Triangular filters that sum the bins of a spectrum into bands evenly spaced on the mel
 * scale. */
#include "operators/args.h"
#include "simd/convert.h"
#include "operators/operators.h"
#include "operators/work.h"
#include "simd/vecmath.h"
#include <math.h>

static double to_mel(double hertz)
{
    return 2595 * log10(1 + hertz / 700);
}

/* The bands + 2 edges of bands, and 10^(mel / 2595) of some of them, from edge `first` on. */
enum { EDGES = 16 };
typedef struct mel_edges {
    double low, span, parts; /* mel of the first edge; all edges have a distance of span / parts */
    double scale, rate;      /* bin = scale (power - 1) / rate */
    double quotient;         /* scale / rate */
    int64_t first;
    double powers[EDGES];
} mel_edges;

static double mel_of(const mel_edges *edges, int64_t index)
{
    return edges->low + (double)index * edges->span / edges->parts;
}

/* Returns the bin of the spectrum at an edge; edges are asked for in their order. */
static int64_t edge_bin(mel_edges *edges, int64_t index)
{
    double power, bin, whole, margin;

    if (index >= edges->first + EDGES) {
        const double per_mel = 2.302585092994045684 / 2595, step = edges->span / edges->parts;

        edges->first = index;
        for (int64_t i = 0; i < EDGES; i++) /* vectorised */
            edges->powers[i] = vd_exp((edges->low + (double)(index + i) * step) * per_mel);
    }
    /* vd_exp() and products take a small part of the time of pow() and quotients. They differ in the last digits, which
     * matter near integers. */
    power = edges->powers[index - edges->first];
    bin = edges->quotient * (power - 1);
    whole = (double)f64_to_i64(bin);
    margin = 1e-12 * (1 + fabs(edges->quotient * power));
    if (bin > 0 && bin - whole > margin && bin - whole < 1 - margin)
        return f64_to_i64(whole);
    return f64_to_i64(floor(edges->scale * (pow(10, mel_of(edges, index) / 2595) - 1) / edges->rate));
}

static void put(const kit_tensor *output, int64_t bin, int64_t band, double value)
{
    if (bin < 0 || bin >= output->dims[0])
        return;
    if (output->dtype == INLAY_FLOAT) /* the usual type, without a call for each element */
        ((float *)output->data)[bin * output->dims[1] + band] = (float)value;
    else
        convert_from_f64(output->dtype, output->data, bin * output->dims[1] + band, 1, &value, 0);
}

static inlay_status run(const kit_call *call)
{
    const kit_tensor *output = &call->out[0];
    int64_t bands = arg_index(&call->in[0], 0), length = arg_index(&call->in[1], 0), rate = arg_index(&call->in[2], 0);
    double low = to_mel(convert_get_f64(call->in[3].dtype, call->in[3].data, 0));
    double high = to_mel(convert_get_f64(call->in[4].dtype, call->in[4].data, 0));
    int64_t middle, last;
    mel_edges edges;

    if (output->rank != 2 || bands < 0 || length < 0 || rate <= 0 || output->dims[0] != length / 2 + 1 ||
        output->dims[1] != bands)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                          "%lld bands of a DFT of %lld at %lld hertz do not match the output", (long long)bands,
                          (long long)length, (long long)rate);
    memset(output->data, 0, kit_bytes(output->dtype, output->count));
    edges = (mel_edges){ .low = low,
                         .span = high - low,
                         .parts = (double)(bands + 2),
                         .scale = (double)(length + 1) * 700,
                         .rate = (double)rate,
                         .quotient = (double)(length + 1) * 700 / (double)rate,
                         .first = -EDGES };
    middle = edge_bin(&edges, 0);
    last = edge_bin(&edges, 1);
    for (int64_t band = 0; band < bands; band++) {
        const int64_t first = middle;

        middle = last;
        last = edge_bin(&edges, band + 2);
        if (middle <= first)
            put(output, middle, band, 1);
        for (int64_t bin = first < 0 ? 0 : first; bin <= middle && bin < output->dims[0] && middle > first; bin++)
            put(output, bin, band, (double)(bin - first) / (double)(middle - first));
        for (int64_t bin = middle < 0 ? 0 : middle; bin < last && bin < output->dims[0]; bin++)
            put(output, bin, band, (double)(last - bin) / (double)(last - middle));
    }
    return INLAY_OK;
}

static const kit_kernel kernels[] = {
    { .op_type = "MelWeightMatrix", .since_max = 17, .cost = work_cost_of_stream, .run = run },
};
const kit_table reference_mel_weight_matrix = { kernels, KIT_COUNT(kernels) };
