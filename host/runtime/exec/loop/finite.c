#include "exec/loop/finite.h"
#include "base/element.h"
#include "base/memory.h"
#include "exec/device/residency.h"
#include "inlay/check.h"
#include "inlay/note.h"
#include "plan/program.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What a scan found. */
typedef struct value_facts {
    uint64_t run; /* number of the run that computed the value; another one: not known */
    bool nan, infinite;
    bool any;                          /* low and high are valid: some element is finite */
    int64_t first_nan, first_infinite; /* index of the first such element */
    double low, high;                  /* of the finite elements */
} value_facts;

struct known_program {
    const struct program *program;
    uint32_t value_count;
    value_facts *values; /* [value_count] */
};

/* The results of scans of the values, for the programs of one context. */
struct finite_check {
    run_observer observer;
    struct known_program *programs; /* [program_count] those that have run */
    uint32_t program_count;
    uint64_t run;
};

static void destroy(run_observer *observer)
{
    struct finite_check *check = (struct finite_check *)observer;

    for (uint32_t i = 0; i < check->program_count; i++)
        free(check->programs[i].values);
    free(check->programs);
    free(check);
}

/* A run begins: nothing is known about its values. */
static void begin_run(run_observer *observer, run_shared *shared)
{
    (void)shared;
    ((struct finite_check *)observer)->run++;
}

/* The facts about the values of a program; NULL: out of memory. A fallback program first appears during a run. */
static value_facts *facts_of(struct finite_check *check, const struct program *program)
{
    struct known_program *known;

    for (uint32_t i = 0; i < check->program_count; i++)
        if (check->programs[i].program == program && check->programs[i].value_count == program->graph->value_count)
            return check->programs[i].values;
    if (!LIST_GROW(check->programs, check->program_count))
        return NULL;
    known = &check->programs[check->program_count];
    known->program = program;
    known->value_count = program->graph->value_count;
    known->values = calloc((size_t)known->value_count + 1, sizeof *known->values);
    if (known->values != NULL)
        check->program_count++;
    return known->values;
}

#define BITS 16
#include "exec/loop/finite_range.inc"
#define BITS 32
#include "exec/loop/finite_range.inc"
#define BITS 64
#include "exec/loop/finite_range.inc"

/* Returns whether all elements are finite, and their range. False also for types without such a loop. */
static bool all_finite(inlay_dtype dtype, const void *data, int64_t count, double *low, double *high)
{
    switch (dtype) {
    case INLAY_FLOAT:
        return range_of_32(dtype, data, count, 0x7f800000, low, high);
    case INLAY_FLOAT16:
        return range_of_16(dtype, data, count, 0x7c00, low, high);
    case INLAY_BFLOAT16:
        return range_of_16(dtype, data, count, 0x7f80, low, high);
    case INLAY_DOUBLE:
        return range_of_64(dtype, data, count, 0x7ff0000000000000, low, high);
    default:
        return false;
    }
}

static void note_element(value_facts *facts, int64_t index, double number)
{
    if (isfinite(number)) {
        facts->low = !facts->any || number < facts->low ? number : facts->low;
        facts->high = !facts->any || number > facts->high ? number : facts->high;
        facts->any = true;
    } else if (isnan(number)) {
        facts->first_nan = facts->nan ? facts->first_nan : index;
        facts->nan = true;
    } else {
        facts->first_infinite = facts->infinite ? facts->first_infinite : index;
        facts->infinite = true;
    }
}

static bool is_floating(inlay_dtype dtype)
{
    return element_is_float(dtype) || dtype == INLAY_COMPLEX64 || dtype == INLAY_COMPLEX128;
}

static value_facts scan_elements(inlay_dtype dtype, const void *data, int64_t count)
{
    value_facts facts = { 0 };

    if (count <= 0 || !is_floating(dtype))
        return facts;
    facts.any = all_finite(dtype, data, count, &facts.low, &facts.high);
    if (facts.any)
        return facts;
    for (int64_t i = 0; i < count; i++) {
        double real = 0, imaginary = 0;

        if (!element_number(dtype, data, i, &real, &imaginary))
            break;
        note_element(&facts, i, real);
        if (dtype == INLAY_COMPLEX64 || dtype == INLAY_COMPLEX128)
            note_element(&facts, i, imaginary);
    }
    return facts;
}

/* The facts about a value of the run, which is copied if it is on a device. Lists have none. */
static inlay_status scan_value(struct runner *runner, const run_value *value, value_facts *out, inlay_diag *diag)
{
    inlay_value *copy = NULL;
    const void *data;
    inlay_status status = INLAY_OK;

    *out = (value_facts){ 0 };
    if (value->kind != INLAY_KIND_TENSOR || !is_floating(value->dtype))
        return INLAY_OK;
    if (value->buffer.domain != INLAY_DOMAIN_HOST) {
        status = copy_to_domain(runner, value, INLAY_DOMAIN_HOST, &copy, diag);
        if (status != INLAY_OK)
            return status;
        data = value_data(copy);
    } else {
        data = (const char *)(uintptr_t)value->buffer.handle + value->buffer.offset;
    }
    *out = scan_elements(value->dtype, data, run_value_count(value));
    value_unref(copy);
    return status;
}

/* Output `k` of a step that has just run, at the address where the step wrote it; a value with a place in memory may be
 * moved from there later. */
static run_value output_of(const struct bound *bound, const bound_step *step, uint32_t k)
{
    const uint32_t value = step->plan->step->region->outputs[k];
    run_value out = runner_value(bound, value);

    if (step->plan->kind == PLAN_EXEC && out.kind == INLAY_KIND_TENSOR)
        out.buffer = bound->memory.buffers[step->plan->out[k]];
    return out;
}

/* The value whose memory `value` shows: a view (Reshape, Identity) has no step. */
static uint32_t origin_of(const struct finite_check *check, const struct runner *runner, const struct bound *bound,
                          uint32_t value, const value_facts *known)
{
    const struct graph *graph = runner->prog->graph;

    while (known[value].run != check->run && graph->values[value].info.producer != INLAY_NONE) {
        const inlay_node_info *node = &graph->nodes[graph->values[value].info.producer]->info;
        const uint32_t place = bound->plan->values[value].place;

        if (place == INLAY_NONE || bound->plan->places[place].source == PLACE_DATA || node->input_count == 0 ||
            node->inputs[0] == INLAY_NONE)
            break;
        value = node->inputs[0];
    }
    return value;
}

/* The facts about an input of a node. Values that steps of this run computed were scanned before a later step could
 * overwrite them; constants and inputs of the graph are scanned now. */
static inlay_status facts_of_input(const struct finite_check *check, struct runner *runner, const struct bound *bound,
                                   uint32_t value, const value_facts *known, value_facts *out, inlay_diag *diag)
{
    const inlay_value_info *info;
    run_value now;

    *out = (value_facts){ 0 };
    if ((runner->prog->graph->values[value].info.flags & INLAY_VALUE_CONSTANT) == 0)
        value = origin_of(check, runner, bound, value, known);
    info = &runner->prog->graph->values[value].info;
    if (known[value].run == check->run) {
        *out = known[value];
        return INLAY_OK;
    }
    if ((info->flags & INLAY_VALUE_CONSTANT) != 0 && info->data != NULL) {
        int64_t count = 1;

        for (uint32_t d = 0; d < info->rank; d++)
            count *= info->dims[d].value;
        *out = scan_elements(info->dtype, info->data, count);
        return INLAY_OK;
    }
    now = runner_value(bound, value);
    return scan_value(runner, &now, out, diag);
}

/* Does the value exist before the run, so that it is not the result of a node? */
static bool is_given(const struct graph *graph, uint32_t value)
{
    return (graph->values[value].info.flags & INLAY_VALUE_CONSTANT) != 0 ||
           (graph->parent == NULL && graph->values[value].info.producer == INLAY_NONE);
}

typedef struct message_text {
    char text[400]; /* leaves room for the node's source in inlay_diag.text */
    size_t used;
    bool full;
} message_text;

/* Appends the text, or "..." instead of the first one that does not fit. */
static void append(message_text *message, const char *text)
{
    const size_t bytes = strlen(text);

    if (message->full)
        return;
    message->full = message->used + bytes + sizeof " ..." > sizeof message->text;
    (void)snprintf(message->text + message->used, sizeof message->text - message->used, "%s",
                   message->full ? " ..." : text);
    message->used += message->full ? 0 : bytes;
}

static void append_input(message_text *message, const struct bound *bound, const inlay_value_info *info, uint32_t value,
                         const value_facts *facts, bool is_first)
{
    run_value now = { .kind = INLAY_KIND_TENSOR, .dtype = info->dtype, .rank = info->rank };
    char text[256], type[128], range[64] = "";
    int64_t dims[INLAY_MAX_RANK];

    if ((info->flags & INLAY_VALUE_CONSTANT) == 0) {
        now = runner_value(bound, value);
    } else {
        for (uint32_t d = 0; d < info->rank; d++)
            dims[d] = info->dims[d].value;
        now.dims = dims;
    }
    if (facts->any)
        (void)snprintf(range, sizeof range, facts->low == facts->high ? " %.6g" : " %.6g to %.6g", facts->low,
                       facts->high);
    (void)snprintf(text, sizeof text, "%s '%.60s' %.60s%s%s%s%s%s", is_first ? "; inputs:" : ",", info->name.data,
                   run_value_describe(&now, type), facts->any || facts->nan || facts->infinite ? " of" : "", range,
                   facts->any && (facts->nan || facts->infinite) ? " and" : "", facts->nan ? " NaN" : "",
                   facts->infinite ? facts->nan ? " and infinity" : " infinity" : "");
    append(message, text);
}

/* Reports that the node made the element `index` of the output. */
static inlay_status report(const struct finite_check *check, struct runner *runner, const struct bound *bound,
                           const graph_node *node, uint32_t output, const run_value *made, bool nan,
                           const value_facts *facts, const value_facts *known, inlay_diag *diag)
{
    const struct graph *graph = runner->prog->graph;
    int64_t rest = nan ? facts->first_nan : facts->first_infinite, index[INLAY_MAX_RANK];
    char place[96], type[128], text[320];
    message_text message = { .used = 0 };
    inlay_status status = INLAY_OK;
    bool is_first = true;

    for (uint32_t d = made->rank; d-- > 0;) {
        index[d] = rest % made->dims[d];
        rest /= made->dims[d];
    }
    (void)snprintf(text, sizeof text, "%.40s node '%.80s' made %s at %s of output '%.60s' %.60s",
                   node->info.op_type.data, node->info.name.data, nan ? "the first NaN" : "the first infinity",
                   dims_text(index, made->rank, ", ", place, sizeof place), graph->values[output].info.name.data,
                   run_value_describe(made, type));
    append(&message, text);
    for (uint32_t i = 0; i < node->info.input_count && status == INLAY_OK; i++) {
        const uint32_t value = node->info.inputs[i];
        value_facts input;

        if (value == INLAY_NONE)
            continue;
        status = facts_of_input(check, runner, bound, value, known, &input, diag);
        append_input(&message, bound, &graph->values[value].info, value, &input, is_first);
        is_first = false;
    }
    if (status != INLAY_OK)
        return status;
    (void)inlay_fail(diag, INLAY_RESULTS_DIFFER, "%s", message.text);
    if (diag == NULL)
        return INLAY_RESULTS_DIFFER;
    graph_add_source(node, diag);
    (void)snprintf(diag->node, sizeof diag->node, "%s", node->info.name.data);
    (void)snprintf(diag->tensor, sizeof diag->tensor, "%s", graph->values[output].info.name.data);
    return INLAY_RESULTS_DIFFER;
}

/* Does the step read a value that already has a NaN, or an infinity? Then the node did not make it. */
static inlay_status find_excuse(const struct finite_check *check, struct runner *runner, const struct bound *bound,
                                const partition_region *region, const graph_node *node, const value_facts *known,
                                bool *out_nan, bool *out_infinite, inlay_diag *diag)
{
    const struct graph *graph = runner->prog->graph;
    inlay_status status = INLAY_OK;

    *out_nan = *out_infinite = false;
    for (uint32_t i = 0; i < region->input_count + node->info.input_count && status == INLAY_OK; i++) {
        const uint32_t value = i < region->input_count ? region->inputs[i] : node->info.inputs[i - region->input_count];
        value_facts input;

        if (value == INLAY_NONE)
            continue;
        if (graph->values[value].info.kind != INLAY_VALUE_TENSOR) { /* the items of a list are not scanned */
            *out_nan = *out_infinite = true;
            return INLAY_OK;
        }
        status = facts_of_input(check, runner, bound, value, known, &input, diag);
        *out_nan = *out_nan || (input.nan && !is_given(graph, origin_of(check, runner, bound, value, known)));
        *out_infinite = *out_infinite || input.infinite || input.nan;
    }
    return status;
}

/* Scans the outputs of a step that has just run. */
static inlay_status check_step(run_observer *observer, const run_event *event, inlay_diag *diag)
{
    struct finite_check *check = (struct finite_check *)observer;
    struct runner *runner = event->runner;
    const struct bound *bound = event->bound;
    const program_step *planned = event->step->plan->step;
    const struct graph *graph = runner->prog->graph;
    value_facts *known;

    if (event->status != INLAY_OK || planned == NULL)
        return INLAY_OK; /* failed, or a copy */
    known = facts_of(check, runner->prog);
    if (known == NULL)
        return no_memory(diag, "to check values");
    for (uint32_t k = 0; k < planned->region->output_count; k++) {
        const uint32_t output = planned->region->outputs[k];
        const run_value made = output_of(bound, event->step, k);
        bool nan, infinite;
        value_facts facts;
        inlay_status status = scan_value(runner, &made, &facts, diag);

        if (status != INLAY_OK)
            return status;
        INLAY_CHECK(output < graph->value_count);
        facts.run = check->run;
        known[output] = facts;
        /* The steps of bodies were checked when they ran. */
        if ((!facts.nan && !facts.infinite) || planned->node->body_count > 0)
            continue;
        status = find_excuse(check, runner, bound, planned->region, planned->node, known, &nan, &infinite, diag);
        if (status != INLAY_OK)
            return status;
        if ((facts.nan && !nan) || (facts.infinite && !infinite))
            return report(check, runner, bound, planned->node, output, &made, facts.nan && !nan, &facts, known, diag);
    }
    return INLAY_OK;
}

inlay_status finite_check_create(run_observer **out_check, inlay_diag *diag)
{
    static const run_observer_calls calls = { .begin_run = begin_run, .end_step = check_step, .destroy = destroy };
    struct finite_check *check = calloc(1, sizeof *check);

    *out_check = NULL;
    if (check == NULL)
        return no_memory(diag, "to check values");
    check->observer.calls = &calls;
    *out_check = &check->observer;
    return INLAY_OK;
}
