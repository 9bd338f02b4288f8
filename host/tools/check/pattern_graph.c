/* Graphs of linked parts: their sizes, elements and expected results. */
#include "check/patterns.h"
#include "check/defined.h"
#include "base/random.h"
#include "check/peers.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

bool patterns_place(struct regions *regions, const struct part *parts, uint32_t count)
{
    const uint32_t first = regions->part_count;

    if (first + count > MAX_PARTS)
        return false;
    for (uint32_t j = 0; j < count; j++) {
        struct part *part = &regions->parts[first + j];

        *part = parts[j];
        memset(&part->result, 0, sizeof part->result);
        part->entry.arena = (struct arena){ 0 };
        part->owns_entry = true;
        for (uint32_t i = 0; i < part->entry.in_count; i++) {
            case_tensor *tensor = &part->entry.in[i];

            part->producer[i] += part->producer[i] != INLAY_NONE ? first : 0;
            part->shared[i] += part->shared[i] != INLAY_NONE ? first : 0;
            /* Axes and shapes of a model's constants stay as they are. */
            if (!tensor->constant || tensor->given != NULL || inlay_dtype_bits(tensor->dtype) < 32 ||
                tensor->dtype == INLAY_FLOAT || tensor->dtype == INLAY_DOUBLE)
                tensor->data = NULL;
        }
        regions->part_count++;
    }
    return true;
}

bool patterns_append(struct regions *regions, const op_case *entry, uint32_t input, uint32_t of)
{
    struct part *part = &regions->parts[regions->part_count];

    INLAY_CHECK(of == INLAY_NONE || of < regions->part_count);
    if (regions->part_count == MAX_PARTS || input >= entry->in_count)
        return false;
    region_part_init(part);
    part->entry = *entry;
    part->entry.arena = (struct arena){ 0 };
    for (uint32_t i = 0; i < entry->in_count; i++)
        part->entry.in[i].data = NULL;
    part->producer[input] = of;
    part->producer_output[input] = 0;
    regions->part_count++;
    return true;
}

static bool same_dims(const case_tensor *a, const case_tensor *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

/* An input that was like `old` becomes like `now`: as a whole, or the dims that it has in common. */
static void follow(case_tensor *tensor, const case_tensor *old, const case_tensor *now)
{
    if (same_dims(tensor, old)) {
        tensor->rank = now->rank;
        memcpy(tensor->dims, now->dims, sizeof tensor->dims);
        return;
    }
    for (uint32_t d = 0; d < tensor->rank && old->rank == now->rank; d++)
        for (uint32_t k = old->rank; k-- > 0;)
            if (tensor->dims[d] == old->dims[k] && old->dims[k] != 1) {
                tensor->dims[d] = now->dims[k];
                break;
            }
}

/* Another shape for an operand that broadcasts against `like`. */
static void set_form(case_tensor *tensor, uint32_t form, const case_tensor *like)
{
    const uint32_t rank = like->rank;

    if (form == FORM_KEPT || tensor->given_count > 0)
        return;
    tensor->rank = form == FORM_SCALAR ? 0 : form == FORM_ROW ? rank > 0 : rank;
    memcpy(tensor->dims, like->dims, sizeof tensor->dims);
    if (form == FORM_ROW && rank > 0)
        tensor->dims[0] = like->dims[rank - 1];
    for (uint32_t d = 0; d < rank && form == FORM_COLUMN; d++)
        tensor->dims[d] = d + 2 == rank || rank == 1 ? like->dims[d] : 1;
    for (uint32_t d = 0; d < rank && form == FORM_CHANNEL; d++)
        tensor->dims[d] = d == 1 ? like->dims[d] : 1;
}

/* Resolves chains of inputs that read the value of another input. */
static void resolve_shared(const struct regions *regions, struct part *part, uint32_t i)
{
    for (uint32_t steps = 0; part->producer[i] == INLAY_NONE && part->shared[i] != INLAY_NONE && steps < MAX_PARTS;
         steps++) {
        const struct part *from = &regions->parts[part->shared[i]];
        const uint32_t k = part->shared_input[i];

        if (from->producer[k] != INLAY_NONE) {
            part->producer[i] = from->producer[k];
            part->producer_output[i] = from->producer_output[k];
            part->shared[i] = INLAY_NONE;
        } else if (from->shared[k] != INLAY_NONE) {
            part->shared[i] = from->shared[k];
            part->shared_input[i] = from->shared_input[k];
        } else {
            break;
        }
    }
}

/* The tensor that input i of part j reads, if it is linked. */
static bool find_linked(struct regions *regions, uint32_t j, uint32_t i, case_tensor *out)
{
    const struct part *part = &regions->parts[j];
    const harness_result *result;
    const harness_output *output;

    if (part->producer[i] != INLAY_NONE) {
        INLAY_CHECK(part->producer[i] < j);
        result = &regions->parts[part->producer[i]].result;
        if (part->producer_output[i] >= result->out_count)
            return false;
        output = &result->out[part->producer_output[i]];
        if (output->rank > CASE_RANK)
            return false;
        *out = (case_tensor){ .dtype = output->dtype,
                              .rank = output->rank,
                              .count = output->count,
                              .bytes = output->bytes,
                              .data = output->data };
        memcpy(out->dims, output->dims, output->rank * sizeof *output->dims);
        return true;
    }
    *out = regions->parts[part->shared[i]].entry.in[part->shared_input[i]];
    return true;
}

static bool is_linked(const struct part *part, uint32_t i)
{
    return part->producer[i] != INLAY_NONE || part->shared[i] != INLAY_NONE;
}

bool patterns_fit(struct regions *regions, uint32_t j)
{
    struct part *part = &regions->parts[j];
    case_tensor olds[CASE_INPUTS], now[CASE_INPUTS];
    const case_tensor *like = NULL;

    for (uint32_t i = 0; i < part->entry.in_count; i++) {
        olds[i] = part->entry.in[i];
        resolve_shared(regions, part, i);
        if (!is_linked(part, i))
            continue;
        if (part->shared[i] == j && part->shared_input[i] >= i)
            return false;
        if (part->shared[i] == j)
            continue; /* below, once that input has its sizes */
        if (!find_linked(regions, j, i, &now[i]))
            return false;
        part->entry.in[i] = now[i];
        like = like == NULL ? &part->entry.in[i] : like;
    }
    for (uint32_t u = 0; u < part->entry.in_count; u++) {
        case_tensor *tensor = &part->entry.in[u];

        if (tensor->dtype == INLAY_UNDEFINED)
            continue;
        if (is_linked(part, u)) {
            if (part->shared[u] == j)
                *tensor = part->entry.in[part->shared_input[u]];
            continue;
        }
        for (uint32_t i = 0; i < part->entry.in_count && tensor->given_count == 0; i++)
            if (is_linked(part, i) && part->shared[i] != j && !same_dims(&olds[i], &now[i])) {
                follow(tensor, &olds[i], &now[i]);
                tensor->data = NULL;
                break;
            }
        if (like != NULL)
            set_form(tensor, part->form[u], like);
    }
    return true;
}

bool patterns_fill(struct regions *regions, uint32_t j)
{
    struct part *part = &regions->parts[j];

    if (case_fill(&part->entry, random_bits(&regions->state)) != INLAY_OK)
        return false;
    for (uint32_t i = 0; i < part->entry.in_count; i++)
        if (part->shared[i] == j) /* of the same node: filled in after it was copied */
            part->entry.in[i].data = part->entry.in[part->shared_input[i]].data;
    return true;
}

/* Runs the part by another provider, or by its own one if that is the only one to have the operator. */
static bool find_result(struct regions *regions, struct part *part)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    case_instance built;
    uint32_t flags;
    bool found;

    if (case_graph(&part->entry, &regions->fixture->operators, CASE_SIZES, &built, &diag) != INLAY_OK)
        return false;
    found = case_is_defined(&part->entry, &built);
    if (!found) {
        case_instance_deinit(&built);
        return false;
    }
    found = peers_run(regions->check, regions->fixture, &built, &part->entry, &part->result);
    case_instance_deinit(&built);
    check_phase(regions->check, "the checker");
    return found || region_run_alone(regions, &part->entry, &part->result, &flags);
}

bool patterns_evaluate(struct regions *regions)
{
    for (uint32_t j = 0; j < regions->part_count; j++)
        if (!patterns_fit(regions, j) || !patterns_fill(regions, j) || !find_result(regions, &regions->parts[j]))
            return false;
    return true;
}
