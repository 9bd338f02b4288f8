#include "watchdog/sample.h"
#include "base/checked.h"
#include "base/memory.h"
#include "base/random.h"
#include "exec/device/in_flight.h"
#include "exec/device/residency.h"
#include "exec/loop/observe.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

enum { SAMPLE_ALIGN = 64 };

/* The choice of one context. */
struct sampler {
    run_observer observer;
    const sample_sink *sink;
    uint64_t seed;
    uint64_t skip; /* steps until the next chosen one */
};

/* Steps between two chosen ones: uniform, with a mean of 1 / rate, so that the choice follows no period of the
 * model. */
static uint64_t draw(struct sampler *sampler)
{
    const double share = (double)(random_bits(&sampler->seed) >> 11) * 0x1p-53;

    return (uint64_t)(share * 2 * (1 / sampler->sink->rate - 1) + 0.5);
}

static void mark_steps(run_observer *observer, struct bound *bound, uint8_t mark)
{
    struct sampler *sampler = (struct sampler *)observer;
    const uint64_t count = bound->plan->step_count;

    for (; sampler->skip < count; sampler->skip += draw(sampler) + 1) {
        bound_step *step = &bound->steps[sampler->skip];

        if ((step->plan->kind == PLAN_EXEC || step->plan->kind == PLAN_DYNAMIC) && step->plan->step->provider != NULL)
            observers_mark_step(step, mark);
    }
    sampler->skip -= count;
}

/* Tensor i of the step's region: its inputs, then its outputs. False: it is not a tensor of numbers. */
static bool tensor_of(const struct bound *bound, const bound_step *step, uint32_t i, run_value *out)
{
    const partition_region *region = step->plan->step->region;
    const uint32_t value = i < region->input_count ? region->inputs[i] : region->outputs[i - region->input_count];

    if (step->plan->kind == PLAN_EXEC) {
        const inlay_tensor_arg *arg =
            i < region->input_count ? &step->args.inputs[i] : &step->args.outputs[i - region->input_count];

        *out = (run_value){
            .kind = INLAY_KIND_TENSOR, .dtype = arg->dtype, .rank = arg->rank, .dims = arg->dims, .buffer = arg->buffer
        };
    } else {
        *out = runner_value(bound, value);
    }
    return out->kind == INLAY_KIND_TENSOR && out->dtype != INLAY_STRING && out->rank <= INLAY_MAX_RANK;
}

static bool reserve(struct sample *sample, uint64_t used, uint64_t bytes)
{
    char *memory;

    if (used + bytes <= sample->memory_room)
        return true;
    memory = realloc(sample->memory, (size_t)(used + bytes));
    if (memory == NULL)
        return false;
    sample->memory = memory;
    sample->memory_room = used + bytes;
    return true;
}

/* Copies tensors [first, end) of the step. False: no memory, or a tensor cannot be copied. */
static bool copy_tensors(struct runner *runner, const struct bound *bound, const bound_step *step, uint32_t first,
                         uint32_t end, struct sample *sample, uint64_t max_bytes)
{
    uint64_t used = first > 0 ? sample->tensors[first - 1].offset + sample->tensors[first - 1].bytes : 0;
    bool good = true;

    for (uint32_t i = first; i < end && good; i++) {
        sample_tensor *tensor = &sample->tensors[i];
        inlay_value *copy = NULL;
        run_value value;
        const void *data;
        size_t bytes;

        used = (used + SAMPLE_ALIGN - 1) / SAMPLE_ALIGN * SAMPLE_ALIGN;
        if (!tensor_of(bound, step, i, &value) || !dtype_bytes(value.dtype, run_value_count(&value), &bytes) ||
            used + bytes > max_bytes || !reserve(sample, used, bytes))
            return false;
        *tensor = (sample_tensor){ .dtype = value.dtype, .rank = value.rank, .offset = used, .bytes = bytes };
        if (value.rank > 0)
            memcpy(tensor->dims, value.dims, value.rank * sizeof *tensor->dims);
        if (value.buffer.domain != INLAY_DOMAIN_HOST) {
            good = copy_to_domain(runner, &value, INLAY_DOMAIN_HOST, &copy, NULL) == INLAY_OK;
            data = good ? value_data(copy) : NULL;
        } else {
            data = (const char *)(uintptr_t)value.buffer.handle + value.buffer.offset;
        }
        if (good && bytes > 0)
            memcpy(sample->memory + used, data, bytes);
        value_unref(copy);
        used += bytes;
    }
    return good;
}

static bool reserve_tensors(struct sample *sample, uint32_t count)
{
    sample_tensor *tensors;

    if (count <= sample->tensor_room)
        return true;
    tensors = realloc(sample->tensors, count * sizeof *tensors);
    if (tensors == NULL)
        return false;
    sample->tensors = tensors;
    sample->tensor_room = count;
    return true;
}

/* Waits for the steps that the inputs come from; the step itself waits for them, too. */
static bool wait_for_inputs(struct runner *runner, struct bound *bound, const bound_step *step)
{
    for (uint32_t i = 0; i < step->wait_step_count; i++)
        if (in_flight_wait(runner, bound, &bound->steps[step->wait_steps[i]], NULL) != INLAY_OK)
            return false;
    return true;
}

static bool begin_step(run_observer *observer, run_event *event)
{
    const sample_sink *sink = ((struct sampler *)observer)->sink;
    const partition_region *region = event->step->plan->step->region;
    struct sample *sample =
        event->runner->in.ready == NULL ? sink->begin(sink->ctx, event->runner->prog, event->step->plan->step) : NULL;

    if (sample == NULL)
        return false;
    if (!reserve_tensors(sample, region->input_count + region->output_count) ||
        !wait_for_inputs(event->runner, event->bound, event->step) ||
        !copy_tensors(event->runner, event->bound, event->step, 0, region->input_count, sample, sink->max_bytes)) {
        sink->end(sink->ctx, sample, false);
        return false;
    }
    event->own = sample;
    return true;
}

static inlay_status end_step(run_observer *observer, const run_event *event, inlay_diag *diag)
{
    const sample_sink *sink = ((struct sampler *)observer)->sink;
    const partition_region *region = event->step->plan->step->region;

    (void)diag;
    sink->end(sink->ctx, event->own,
              event->status == INLAY_OK &&
                  copy_tensors(event->runner, event->bound, event->step, region->input_count,
                               region->input_count + region->output_count, event->own, sink->max_bytes));
    return INLAY_OK;
}

static void destroy(run_observer *observer)
{
    free(observer);
}

inlay_status sampler_create(const sample_sink *sink, run_observer **out_sampler, inlay_diag *diag)
{
    static const run_observer_calls calls = {
        .mark = mark_steps, .begin_step = begin_step, .end_step = end_step, .destroy = destroy
    };
    static uint64_t number;
    struct sampler *sampler = calloc(1, sizeof *sampler);

    *out_sampler = NULL;
    if (sampler == NULL)
        return no_memory(diag, "for option watchdog");
    sampler->observer.calls = &calls;
    sampler->sink = sink;
    sampler->seed = __atomic_fetch_add(&number, 1, __ATOMIC_RELAXED);
    sampler->skip = draw(sampler);
    *out_sampler = &sampler->observer;
    return INLAY_OK;
}
