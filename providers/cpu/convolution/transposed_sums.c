/* Runs transposed convolutions as GEMMs and sums. */
#include "cpu/convolution/transposed_sums.h"
#include "cpu/convolution/sum_loops.h"
#include "inlay/check.h"
#include "inlay/host.h"

uint64_t sums_terms_bytes(const axis_terms *axis)
{
    return ((uint64_t)axis->out + 1) * sizeof(int64_t) +
           2 * (uint64_t)axis->max_terms * sizeof(int32_t) * (uint64_t)axis->out;
}

/* The first input position that contributes, by this tap, to output position `output` or to a later one. */
static int64_t first_input(const axis_terms *axis, int64_t tap, int64_t output)
{
    const int64_t first = sums_parts(output + axis->begin - tap * axis->dilation, axis->stride);

    return first < axis->size ? first : axis->size;
}

char *sums_fill_terms(axis_terms *axis, int64_t positions, bool thin, char *memory)
{
    int64_t count = 0, max_terms = 0;

    axis->first = (int64_t *)(void *)memory;
    axis->in = (int32_t *)(axis->first + axis->out + 1);
    axis->tap = axis->in + axis->max_terms * axis->out;
    for (int64_t output = 0; output < axis->out; output++) {
        axis->first[output] = count;
        for (int64_t tap = 0; tap < axis->kernel; tap++) {
            int64_t at = output + axis->begin - tap * axis->dilation;

            if (at < 0 || at % axis->stride != 0 || at / axis->stride >= axis->size)
                continue;
            at /= axis->stride;
            if (positions > 0)
                at -= first_input(axis, thin ? axis->kernel - 1 : tap, output / positions * positions);
            axis->in[count] = (int32_t)at;
            axis->tap[count++] = (int32_t)tap;
        }
        max_terms = count - axis->first[output] > max_terms ? count - axis->first[output] : max_terms;
    }
    axis->first[axis->out] = count;
    memory = (char *)(axis->tap + axis->max_terms * axis->out);
    axis->max_terms = max_terms;
    return memory;
}

typedef struct sum_call {
    const struct sums *sums;
    const float *from, *weights, *bias; /* weights: [taps][groups][in][out], thin: [in][channels][taps] */
    float *output, *scratch;
} sum_call;

typedef struct sum_unit {
    int64_t image, channel, channels;
    int64_t low[SUMS_AXES], high[SUMS_AXES]; /* output positions */
    const float *products; /* [tap][pixel][channel], thin: [pixel][channel][tap]; weighted: the image */
    int64_t tap_step;
} sum_unit;

/* Units are numbered by image, block of positions, and chunk of channels. A chunk is one of the `parts` of `outer`
 * channels, which are one group or several. */
static sum_unit unit_of(const struct sums *sums, int64_t number)
{
    const int64_t chunk = number % sums->unit.chunks, block = number / sums->unit.chunks % sums->unit.blocks;
    const int64_t outer_end = (chunk / sums->unit.parts + 1) * sums->unit.outer,
                  channel_end = outer_end < sums->channels ? outer_end : sums->channels;
    sum_unit unit = { .image = number / sums->unit.chunks / sums->unit.blocks,
                      .channel = chunk / sums->unit.parts * sums->unit.outer +
                                 chunk % sums->unit.parts * sums->unit.channels };

    unit.channels = channel_end - unit.channel;
    if (unit.channels > sums->unit.channels)
        unit.channels = sums->unit.channels;
    INLAY_CHECK(unit.channels > 0);
    for (uint32_t i = 0; i < SUMS_AXES; i++)
        unit.high[i] = sums->axes[i].out;
    unit.low[sums->axis] = block * sums->unit.positions;
    if (unit.high[sums->axis] > unit.low[sums->axis] + sums->unit.positions)
        unit.high[sums->axis] = unit.low[sums->axis] + sums->unit.positions;
    return unit;
}

/* products = input positions [from, end) of the unit's image, by columns of weights from b on. */
static void multiply_positions(const sum_call *call, const sum_unit *unit, int64_t from, int64_t end, int64_t group,
                               const float *b, int64_t b_step, int64_t n, float *products, int64_t row)
{
    const struct sums *sums = call->sums;
    const sgemm_job job = { .kernel = sums->kernel,
                            .m = (end - from) * sums->inner,
                            .n = n,
                            .k = sums->in,
                            .chain = sgemm_chain(sums->in, true),
                            .a = call->from +
                                 ((unit->image * sums->places + from * sums->inner) * sums->groups + group) * sums->in,
                            .a_row = sums->groups * sums->in,
                            .b = b,
                            .width = SGEMM_WIDTH,
                            .b_panel = SGEMM_WIDTH,
                            .b_step = b_step,
                            .c = products,
                            .c_row = row };

    if (job.m > 0)
        sgemm_run(&job, 0, sgemm_units(&job));
}

/* One product for each tap and group. A tap reads only the input positions that contribute to the unit. */
static void multiply_wide(const sum_call *call, const sum_unit *unit, float *products)
{
    const struct sums *sums = call->sums;
    const axis_terms *axis = &sums->axes[sums->axis];
    const int64_t inner_taps = sums->taps / axis->kernel;

    for (int64_t tap = 0; tap < sums->taps; tap++) {
        const int64_t from = first_input(axis, tap / inner_taps, unit->low[sums->axis]),
                      end = first_input(axis, tap / inner_taps, unit->high[sums->axis]);

        INLAY_CHECK(end - from <= sums->unit.span);
        for (int64_t channel = 0; channel < unit->channels;) {
            const int64_t group = (unit->channel + channel) / sums->out, column = (unit->channel + channel) % sums->out,
                          left = unit->channels - channel, n = sums->out - column < left ? sums->out - column : left;

            multiply_positions(call, unit, from, end, group,
                               call->weights + (tap * sums->groups + group) * sums->in * sums->out + column, sums->out,
                               n, products + tap * unit->tap_step + channel, unit->channels);
            channel += n;
        }
    }
}

static void multiply_thin(const sum_call *call, const sum_unit *unit, float *products)
{
    const struct sums *sums = call->sums;
    const axis_terms *axis = &sums->axes[sums->axis];
    const int64_t columns = sums->channels * sums->taps,
                  from = first_input(axis, axis->kernel - 1, unit->low[sums->axis]),
                  end = first_input(axis, 0, unit->high[sums->axis]);

    INLAY_CHECK(end - from <= sums->unit.span);
    multiply_positions(call, unit, from, end, 0, call->weights, columns, columns, products, columns);
}

static void sum_wide(const sum_call *call, const sum_unit *unit)
{
    const struct sums *sums = call->sums;
    const axis_terms *depth = &sums->axes[0], *height = &sums->axes[1], *width = &sums->axes[2];
    const sum_loops *const loops = KERNEL_BEST(sum_loops);
    const float *bias = call->bias != NULL ? call->bias + unit->channel : NULL;

    INLAY_CHECK(sums->axes[0].max_terms * sums->axes[1].max_terms * sums->axes[2].max_terms <= SUMS_MAX_TERMS);
    for (int64_t plane_out = unit->low[0]; plane_out < unit->high[0]; plane_out++)
        for (int64_t row_out = unit->low[1]; row_out < unit->high[1]; row_out++) {
            const int64_t row = (unit->image * depth->out + plane_out) * height->out + row_out;
            float *const row_from = call->output + (row * width->out + unit->low[2]) * sums->channels + unit->channel;
            float *output = row_from;

            for (int64_t column = unit->low[2]; column < unit->high[2]; column++, output += sums->channels) {
                const float *rows[SUMS_MAX_TERMS], *weights[SUMS_MAX_TERMS];
                uint32_t count = 0;

                for (int64_t i = depth->first[plane_out]; i < depth->first[plane_out + 1]; i++) {
                    for (int64_t j = height->first[row_out]; j < height->first[row_out + 1]; j++) {
                        for (int64_t k = width->first[column]; k < width->first[column + 1]; k++) {
                            const int64_t tap = ((int64_t)depth->tap[i] * height->kernel + height->tap[j]) *
                                                    width->kernel +
                                                width->tap[k],
                                          at = ((int64_t)depth->in[i] * height->size + height->in[j]) * width->size +
                                               width->in[k];

                            rows[count] = unit->products + tap * unit->tap_step + at * unit->channels;
                            weights[count++] = call->weights + tap * sums->channels;
                        }
                    }
                }
                loops->add_rows(output, rows, sums->weighted ? weights : NULL, count, bias, unit->channels);
                if (unit->channels < sums->channels)
                    transposed_apply_epilogue(&sums->epilogue, sums->kernel, output, unit->channels);
            }
            if (unit->channels == sums->channels)
                transposed_apply_epilogue(&sums->epilogue, sums->kernel, row_from, output - row_from);
        }
}

/* output[i * stride] += input[i * step] */
static void add_strided(float *output, int64_t stride, const float *input, int64_t step, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        output[i * stride] += input[i * step];
}

/* Adds the products of one input row, from column `origin` on, and one row of taps to columns [low, high) of an output
 * row of one channel, row-major. */
static void add_taps(const axis_terms *axis, float *output, int64_t low, int64_t high, const float *input,
                     int64_t origin, int64_t step)
{
    for (int64_t tap = 0; tap < axis->kernel; tap++) {
        const int64_t first = first_input(axis, tap, low), end = first_input(axis, tap, high);

        if (first < end)
            add_strided(output + first * axis->stride + tap * axis->dilation - axis->begin, axis->stride,
                        input + (first - origin) * step + tap, step, end - first);
    }
}

/* The output is [batch, channels, ..]. */
static void sum_thin(const sum_call *call, const sum_unit *unit)
{
    const struct sums *sums = call->sums;
    const axis_terms *depth = &sums->axes[0], *height = &sums->axes[1], *width = &sums->axes[2];
    const int64_t step = sums->channels * sums->taps, low = unit->low[2], high = unit->high[2],
                  origin = sums->axis == 2 ? first_input(width, width->kernel - 1, low) : 0;

    for (int64_t channel = 0; channel < sums->channels; channel++)
        for (int64_t plane_out = unit->low[0]; plane_out < unit->high[0]; plane_out++)
            for (int64_t row_out = unit->low[1]; row_out < unit->high[1]; row_out++) {
                const int64_t row =
                    ((unit->image * sums->channels + channel) * depth->out + plane_out) * height->out + row_out;
                const float *image = unit->products + channel * sums->taps;
                float *output = call->output + row * width->out;

                for (int64_t column = low; column < high; column++)
                    output[column] = call->bias != NULL ? call->bias[channel] : 0;
                for (int64_t i = depth->first[plane_out]; i < depth->first[plane_out + 1]; i++)
                    for (int64_t j = height->first[row_out]; j < height->first[row_out + 1]; j++)
                        add_taps(width, output, low, high,
                                 image + ((int64_t)depth->in[i] * height->size + height->in[j]) * width->size * step +
                                     ((int64_t)depth->tap[i] * height->kernel + height->tap[j]) * width->kernel,
                                 origin, step);
                transposed_apply_epilogue(&sums->epilogue, sums->kernel, output + low, high - low);
            }
}

static inlay_status run_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const sum_call *call = user;
    const struct sums *sums = call->sums;
    float *products = sums->weighted ? NULL : call->scratch + worker % sums->workers * sums->product_floats;

    for (int64_t number = begin; number < end; number++) {
        sum_unit unit = unit_of(sums, number);

        unit.products = products;
        if (sums->weighted) {
            unit.products = call->from + unit.image * sums->places * sums->channels;
            sum_wide(call, &unit);
        } else if (sums->thin) {
            multiply_thin(call, &unit, products);
            sum_thin(call, &unit);
        } else {
            unit.tap_step = sums->unit.span * sums->inner * unit.channels;
            multiply_wide(call, &unit, products);
            sum_wide(call, &unit);
        }
    }
    return INLAY_OK;
}

inlay_status sums_run(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                      uint32_t threads)
{
    const struct sums *sums = (const struct sums *)(const void *)native;
    const int64_t units = sums->batch * sums->unit.blocks * sums->unit.chunks;
    sum_call call = { .sums = sums, .from = args[0], .output = args[1], .weights = args[2] };

    (void)threads; /* a single thread, too, runs by parallel_for, which ends early if the run is cancelled */
    if (sums->biased)
        call.bias = args[3];
    if (!sums->weighted)
        call.scratch = args[sums->scratch];
    if (units < 2 || sums->ns < SUMS_WAKE_NS)
        return run_units(&call, 0, units, 0);
    return state->host->parallel_for(state->host->ctx, run, units, 1, run_units, &call);
}
