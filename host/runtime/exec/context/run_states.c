#include "exec/context/run_states.h"
#include "base/memory.h"
#include "exec/context/text_pages.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

enum { ROW_MULTIPLE = 64 /* capacities are multiples of it */, MAX_ATTEMPTS = 16 /* of one run */ };

struct slot {
    inlay_value *current; /* current rows (dims); the memory may have capacity for more. NULL: no value yet */
    inlay_value *next;    /* of states that are replaced: memory for the result of the run, or NULL */
    int64_t room;         /* in place: capacity of the memory in rows; 0: the value is row-major without spare rows */
    bool bound;           /* the current run reads it */
    bool cleared;         /* in place: the spare rows of all texts hold numbers, as the mask of other texts requires */
};

/* What a row has in common with its copies. */
struct shared_row {
    text_pages *pages; /* atomic: contexts that copy the row set it; NULL: nothing */
    int64_t limit;     /* later entries may differ from those of the pages; 0: none does */
    uint32_t mappings; /* of the pages, in the memory of the states */
};

struct run_states {
    const struct program *prog;
    run_memory *memory;
    uint64_t rows;
    struct slot *slots;        /* [env->state_count] */
    struct shared_row *shared; /* [row_room] of rows that run_states_join() made */
    uint32_t row_count, row_room;
    inlay_buffer *placed;  /* [output_count] buffers for runner_outputs.placed */
    int64_t expected_rows; /* rows that the next run probably needs */
    int64_t min_rows;      /* minimum rows, set after a run that had too few */
    uint32_t attempts;
    bool in_place_failed; /* shapes occurred at which no region can append: states are no longer kept in place */
};

static const graph_state *state_of(const run_states *states, uint32_t k)
{
    INLAY_CHECK(k < states->prog->env->state_count);
    return &states->prog->env->states[k];
}

static const inlay_value_info *info_of(const run_states *states, uint32_t k)
{
    return &states->prog->graph->values[states->prog->graph->inputs[state_of(states, k)->input]].info;
}

inlay_status run_states_create(const struct program *prog, run_memory *memory, uint64_t rows, run_states **out_states,
                               inlay_diag *diag)
{
    run_states *states = calloc(1, sizeof *states);

    *out_states = states;
    if (states != NULL) {
        states->prog = prog;
        states->memory = memory;
        states->rows = rows;
        states->slots = calloc(prog->env->state_count + 1u, sizeof *states->slots);
        states->placed = calloc(prog->graph->output_count + 1u, sizeof *states->placed);
    }
    if (states != NULL && states->slots != NULL && states->placed != NULL)
        return INLAY_OK;
    run_states_destroy(states);
    *out_states = NULL;
    return no_memory(diag, "for the states of a context");
}

void run_states_move(run_states *states, const struct program *prog)
{
    INLAY_CHECK(prog->env->state_count == states->prog->env->state_count);
    states->prog = prog;
}

static void clear_slot(struct slot *slot)
{
    value_unref(slot->current);
    value_unref(slot->next);
    *slot = (struct slot){ .current = NULL };
}

static void forget_rows(struct shared_row *rows, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        text_pages_forget(rows[i].mappings);
        text_pages_unref(rows[i].pages);
        rows[i] = (struct shared_row){ .pages = NULL };
    }
}

/* Whether runs append to all states that grow, so that entries stay where they are. */
static bool keeps_entries(const run_states *states)
{
    bool all = !states->in_place_failed;

    for (uint32_t k = 0; all && k < states->prog->env->state_count; k++)
        all = state_of(states, k)->axis == INLAY_NONE || states->prog->state_steps[k] != INLAY_NONE;
    return all;
}

static int64_t shared_entries(const struct shared_row *row)
{
    const int64_t entries = row->pages == NULL ? 0 : text_pages_entries(row->pages);

    return row->limit != 0 && row->limit < entries ? row->limit : entries;
}

void run_states_shorten(run_states *states, uint32_t row, int64_t length)
{
    struct shared_row *shared = row < states->row_room ? &states->shared[row] : NULL;

    if (shared == NULL || length >= shared_entries(shared))
        return;
    if (length == 0)
        forget_rows(shared, 1);
    shared->limit = length;
}

void run_states_destroy(run_states *states)
{
    if (states == NULL)
        return;
    forget_rows(states->shared, states->row_room);
    free(states->shared);
    for (uint32_t k = 0; states->slots != NULL && k < states->prog->env->state_count; k++)
        clear_slot(&states->slots[k]);
    free(states->slots);
    free(states->placed);
    free(states);
}

uint32_t run_states_of_input(const program_env *env, uint32_t i)
{
    for (uint32_t k = 0; k < env->state_count; k++)
        if (env->states[k].input == i)
            return k;
    return INLAY_NONE;
}

/* Copies the first `rows` rows of each block along the axis, from blocks of from_rows to blocks of to_rows. `to` may
 * equal `from` if its blocks are not longer. */
static void copy_rows(const inlay_value *value, uint32_t axis, char *to, int64_t to_rows, const char *from,
                      int64_t from_rows, int64_t rows)
{
    int64_t blocks = 1, row = inlay_dtype_bits(value->dtype) / 8;

    INLAY_CHECK(rows <= from_rows && rows <= to_rows);
    for (uint32_t d = 0; d < axis; d++)
        blocks *= value->dims[d];
    for (uint32_t d = axis + 1; d < value->rank; d++)
        row *= value->dims[d];
    for (int64_t i = 0; i < blocks && rows > 0; i++)
        memmove(to + i * to_rows * row, from + i * from_rows * row, (size_t)(rows * row));
}

/* A tensor like `value` with `rows` rows along the axis, or with the same shape if the state does not grow; not
 * cleared. */
static inlay_status make_like(const run_states *states, uint32_t axis, const inlay_value *value, int64_t rows,
                              inlay_value **out_value, inlay_diag *diag)
{
    int64_t dims[INLAY_MAX_RANK] = { 0 };

    memcpy(dims, value->dims, value->rank * sizeof *dims);
    if (axis != INLAY_NONE)
        dims[axis] = rows;
    return value_create_state(states->memory, value->dtype, value->rank, dims, false, out_value, diag);
}

/* Copies the value of the slot to memory with capacity for `room` rows; 0: row-major without spare rows. */
static inlay_status copy_with_capacity(const run_states *states, const struct slot *slot, uint32_t axis, int64_t room,
                                       inlay_value **out_value, inlay_diag *diag)
{
    const inlay_value *current = slot->current;
    const int64_t rows = axis == INLAY_NONE ? 0 : current->dims[axis], had = slot->room != 0 ? slot->room : rows;
    const char *from = value_data(current);
    inlay_status status = make_like(states, axis, current, room != 0 ? room : rows, out_value, diag);

    if (status != INLAY_OK)
        return status;
    if (axis == INLAY_NONE) {
        memcpy(value_data(*out_value), from, (size_t)(*out_value)->buffer.bytes);
        return INLAY_OK;
    }
    copy_rows(current, axis, value_data(*out_value), room != 0 ? room : rows, from, had, rows);
    (*out_value)->dims[axis] = rows;
    return INLAY_OK;
}

/* Clears entries [first, last) of the blocks [block, block + blocks), each with `room` entries. */
static void clear_entries(inlay_value *value, uint32_t axis, int64_t room, int64_t block, int64_t blocks, int64_t first,
                          int64_t last)
{
    int64_t entry = inlay_dtype_bits(value->dtype) / 8;

    for (uint32_t d = axis + 1; d < value->rank; d++)
        entry *= value->dims[d];
    for (int64_t i = block; i < block + blocks && first < last; i++)
        memset((char *)value_data(value) + (i * room + first) * entry, 0, (size_t)((last - first) * entry));
}

/* The blocks of a value along the axis, each of which has the entries of one text and head. */
static int64_t blocks_of(const inlay_value *value, uint32_t axis)
{
    int64_t blocks = 1;

    for (uint32_t d = 0; d < axis; d++)
        blocks *= value->dims[d];
    return blocks;
}

/* A row in state k: its tokens from the first one on, and the bytes of an entry. */
static text_part part_of(const states_row *row, uint32_t k, int64_t *out_entry)
{
    const struct slot *slot = &row->from->slots[k];
    const inlay_value *from = slot->current;
    const uint32_t axis = state_of(row->from, k)->axis, axes = axis == INLAY_NONE ? from->rank : axis;
    int64_t blocks = 1, entry = inlay_dtype_bits(from->dtype) / 8, had = 1;

    for (uint32_t d = 0; d < from->rank; d++)
        *(d < axes ? &blocks : &entry) *= d != axis ? from->dims[d] : 1;
    blocks /= row->rows;
    if (axis != INLAY_NONE)
        had = slot->room != 0 ? slot->room : from->dims[axis];
    *out_entry = entry;
    return (text_part){ .data = (const char *)value_data(from) + row->row * blocks * had * entry,
                        .blocks = blocks,
                        .stride = had * entry,
                        .bytes = (axis != INLAY_NONE ? row->kept : 1) * entry };
}

/* Copies a row of state k to row `to_row` of `count` in `to`, whose memory has capacity for to_rows. `shared` describes
 * the row in `to`. */
static void copy_joined(const states_row *row, uint32_t k, bool at_end, inlay_value *to, int64_t to_rows,
                        uint32_t to_row, uint32_t count, struct shared_row *shared)
{
    const uint32_t axis = state_of(row->from, k)->axis;
    const bool maps = shared->pages != NULL && axis != INLAY_NONE && run_memory_is_mapped(to->from, to->capacity);
    int64_t entry, first = 0, to_first = 0, has = 1;
    const text_part part = part_of(row, k, &entry);

    if (axis != INLAY_NONE) {
        has = to_rows;
        first = at_end ? row->from->slots[k].current->dims[axis] - row->length : 0;
        to_first = at_end ? to->dims[axis] - row->kept : 0;
    }
    INLAY_CHECK(to_row < count && first >= 0 && first * entry + part.bytes <= part.stride && to_first >= 0 &&
                to_first * entry + part.bytes <= has * entry);
    for (int64_t i = 0; i < part.blocks; i++) {
        char *into = (char *)value_data(to) + ((to_row * part.blocks + i) * has + to_first) * entry;
        const int64_t common = maps ? shared_entries(shared) * entry : 0,
                      done = maps ? text_pages_map(shared->pages, k, i, into, common < part.bytes ? common : part.bytes)
                                  : 0;

        shared->mappings += done > 0;
        memcpy(into + done, part.data + i * part.stride + first * entry + done, (size_t)(part.bytes - done));
    }
}

/* Pages with all tokens of the row that are kept; NULL: the row is too short, or there is no memory. */
static text_pages *make_pages(const states_row *row)
{
    const uint32_t count = row->from->prog->env->state_count;
    text_part *parts;
    text_pages *pages;
    int64_t entry, bytes = 0;

    for (uint32_t k = 0; k < count; k++) {
        const text_part part = part_of(row, k, &entry);

        bytes += part.blocks * part.bytes;
    }
    parts = bytes < TEXT_PAGES_LEAST || !keeps_entries(row->from) ? NULL : calloc(count, sizeof *parts);
    for (uint32_t k = 0; parts != NULL && k < count; k++) {
        parts[k] = part_of(row, k, &entry);
        if (state_of(row->from, k)->axis == INLAY_NONE)
            parts[k].bytes = 0;
    }
    pages = parts != NULL ? text_pages_create(parts, count, row->kept) : NULL;
    free(parts);
    return pages;
}

/* What the copy of a row in `states` shares with the row: at least half of the tokens, otherwise nothing. */
static struct shared_row share_row(const run_states *states, const states_row *row)
{
    struct shared_row *from = &row->from->shared[row->row];
    text_pages *pages = __atomic_load_n(&from->pages, __ATOMIC_ACQUIRE), *none = NULL;

    if (pages == NULL && row->from != states) {
        pages = make_pages(row);
        if (pages != NULL &&
            !__atomic_compare_exchange_n(&from->pages, &none, pages, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            text_pages_unref(pages);
            pages = none; /* of another thread */
        }
    }
    return pages != NULL && shared_entries(from) >= row->kept / 2
               ? (struct shared_row){ .pages = text_pages_ref(pages), .limit = from->limit }
               : (struct shared_row){ .pages = NULL };
}

static inlay_status set_room(run_states *states, struct slot *slot, uint32_t axis, int64_t room, inlay_diag *diag)
{
    inlay_value *moved;
    inlay_status status;

    if (slot->room == room)
        return INLAY_OK;
    if (states->row_count == 0 || axis == INLAY_NONE || room == 0) {
        status = copy_with_capacity(states, slot, axis, room, &moved, diag);
    } else {
        states_row row = { .from = states, .rows = states->row_count, .kept = slot->current->dims[axis] };

        status = make_like(states, axis, slot->current, room, &moved, diag);
        for (; status == INLAY_OK && row.row < row.rows; row.row++)
            copy_joined(&row, (uint32_t)(slot - states->slots), false, moved, room, row.row, row.rows,
                        &states->shared[row.row]);
        if (status == INLAY_OK)
            moved->dims[axis] = row.kept;
    }
    if (status != INLAY_OK)
        return status;
    slot->cleared = slot->cleared && room != 0;
    if (slot->cleared)
        clear_entries(moved, axis, room, 0, blocks_of(moved, axis), moved->dims[axis], room);
    value_unref(slot->current);
    slot->current = moved;
    slot->room = room;
    return INLAY_OK;
}

/* The size of a symbol in this run according to the bound inputs; -1: no input has it. */
static int64_t symbol_size(const run_states *states, const run_value *in, uint32_t symbol)
{
    const struct graph *graph = states->prog->graph;

    for (uint32_t i = 0; i < graph->input_count; i++) {
        const inlay_value_info *info = &graph->values[graph->inputs[i]].info;

        for (uint32_t d = 0; in[i].kind == INLAY_KIND_TENSOR && info->rank == in[i].rank && d < info->rank; d++)
            if (info->dims[d].kind == INLAY_DIM_SYMBOLIC && info->dims[d].symbol == symbol)
                return in[i].dims[d];
    }
    return -1;
}

/* The dims of a state before the first run: no rows, or the full size if the state does not grow. */
static inlay_status initial_dims(const run_states *states, uint32_t k, const run_value *in, int64_t *dims,
                                 inlay_diag *diag)
{
    const inlay_value_info *info = info_of(states, k);

    for (uint32_t d = 0; d < info->rank; d++) {
        dims[d] = info->dims[d].kind == INLAY_DIM_FIXED      ? info->dims[d].value
                  : d == state_of(states, k)->axis           ? 0
                  : info->dims[d].kind == INLAY_DIM_SYMBOLIC ? symbol_size(states, in, info->dims[d].symbol)
                                                             : -1;
        if (dims[d] < 0)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "state '%s': no other input gives the initial size of axis %u; "
                              "set it once with inlay_context_state_set()",
                              info->name.data, d);
    }
    return INLAY_OK;
}

/* Allocates a state that has no rows, cleared, unless it already has memory of these dims from before a rewind. */
static inlay_status allocate_initial(const run_states *states, uint32_t k, const run_value *in, inlay_diag *diag)
{
    const uint32_t axis = state_of(states, k)->axis;
    const inlay_value_info *info = info_of(states, k);
    struct slot *slot = &states->slots[k];
    int64_t dims[INLAY_MAX_RANK];
    inlay_status status;

    if (slot->current != NULL && (axis == INLAY_NONE || slot->current->dims[axis] > 0))
        return INLAY_OK;
    status = initial_dims(states, k, in, dims, diag);
    if (status != INLAY_OK ||
        (slot->current != NULL && memcmp(slot->current->dims, dims, info->rank * sizeof *dims) == 0))
        return status;
    clear_slot(slot);
    return value_create_state(states->memory, info->dtype, info->rank, dims, true, &slot->current, diag);
}

/* Allocates the memory for the next value of a state that is replaced. Reuses the memory of the value before the
 * current one, unless the caller holds a reference to it. */
static inlay_status make_next(const run_states *states, struct slot *slot, uint32_t axis, int64_t rows,
                              inlay_diag *diag)
{
    const uint64_t row = axis == INLAY_NONE || slot->current->dims[axis] == 0
                             ? 0
                             : slot->current->buffer.bytes / (uint64_t)slot->current->dims[axis];

    if (slot->next != NULL && value_is_reusable(slot->next) && slot->next->capacity >= row * (uint64_t)rows)
        return INLAY_OK;
    value_unref(slot->next);
    slot->next = NULL;
    return make_like(states, axis, slot->current, rows + rows / 2, &slot->next, diag);
}

static inlay_status bind_slot(run_states *states, uint32_t k, struct runner *runner, run_value *in, inlay_diag *diag)
{
    const graph_state *state = state_of(states, k);
    const uint32_t axis = state->axis;
    const bool in_place = !states->in_place_failed && states->prog->state_steps[k] != INLAY_NONE;
    struct slot *slot = &states->slots[k];
    inlay_status status = allocate_initial(states, k, in, diag);
    int64_t rows;

    if (status != INLAY_OK)
        return status;
    rows = axis == INLAY_NONE ? 0 : slot->current->dims[axis] + 1;
    rows = rows > states->expected_rows ? rows : states->expected_rows;
    rows = rows > states->min_rows ? rows : states->min_rows;
    if (!in_place)
        status = set_room(states, slot, axis, 0, diag);
    else if (slot->room < rows) {
        rows = rows > (int64_t)states->rows ? rows : (int64_t)states->rows;
        rows = rows > 2 * slot->room ? rows : 2 * slot->room;
        status = set_room(states, slot, axis, (rows + ROW_MULTIPLE - 1) / ROW_MULTIPLE * ROW_MULTIPLE, diag);
    }
    if (status == INLAY_OK && !in_place)
        status = make_next(states, slot, axis, rows, diag);
    if (status != INLAY_OK)
        return status;
    slot->bound = true;
    in[state->input] = run_value_of(slot->current);
    in[state->input].owner = NULL;
    in[state->input].room = (uint32_t)slot->room;
    if (in_place) {
        in[state->input].buffer.bytes = slot->current->capacity;
        states->placed[state->output] = in[state->input].buffer;
        runner->out.placed = states->placed;
    } else if (runner->out.wanted[state->output] == NULL) {
        runner->out.wanted[state->output] = slot->next;
    }
    return INLAY_OK;
}

inlay_status run_states_bind(run_states *states, struct runner *runner, run_value *in, inlay_diag *diag)
{
    const struct graph *graph = states->prog->graph;
    inlay_status status = INLAY_OK;

    /* Estimate: the longest axis of an input of rank 1 or 2, because the attention mask is as long as past and new
     * tokens together. */
    if (states->row_count > 0 && !keeps_entries(states))
        forget_rows(states->shared, states->row_room);
    states->expected_rows = 0;
    for (uint32_t i = 0; i < graph->input_count; i++)
        for (uint32_t d = 0; in[i].kind == INLAY_KIND_TENSOR && in[i].rank <= 2 && d < in[i].rank; d++)
            states->expected_rows = in[i].dims[d] > states->expected_rows ? in[i].dims[d] : states->expected_rows;
    for (uint32_t k = 0; k < states->prog->env->state_count; k++)
        states->slots[k].bound = false;
    for (uint32_t k = 0; status == INLAY_OK && k < states->prog->env->state_count; k++) {
        if (in[state_of(states, k)->input].kind == 0)
            status = bind_slot(states, k, runner, in, diag);
    }
    return status;
}

/* Makes the output of the run the current value of the state. */
static inlay_status commit_state(run_states *states, uint32_t k, const struct runner *runner, inlay_diag *diag)
{
    const graph_state *state = state_of(states, k);
    inlay_value *made = runner->out.values[state->output], *before;
    struct slot *slot = &states->slots[k];

    INLAY_CHECK(slot->bound);
    if (slot->room != 0) {
        slot->current->dims[state->axis] =
            runner->plans.now->plan->states[states->prog->graph->outputs[state->output]].dims[state->axis];
        return INLAY_OK;
    }
    if (made == NULL || made->kind != INLAY_KIND_TENSOR)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "the run made no state for '%s'", info_of(states, k)->name.data);
    before = slot->current;
    if (made == slot->next) {
        slot->current = made;
        slot->next = before;
    } else if (runner->out.wanted[state->output] != NULL &&
               made == runner->out.wanted[state->output]) { /* the caller holds it as its output */
        inlay_status status =
            copy_with_capacity(states, &(struct slot){ .current = made }, state->axis, 0, &slot->current, diag);

        if (status != INLAY_OK) {
            slot->current = before;
            return status;
        }
        value_unref(before);
    } else {
        slot->current = value_ref(made);
        value_unref(before);
    }
    return INLAY_OK;
}

inlay_status run_states_commit(run_states *states, struct runner *runner, inlay_status status, bool *out_again,
                               inlay_diag *diag)
{
    const inlay_status run = status;

    *out_again = false;
    for (uint32_t k = 0; k < states->prog->env->state_count; k++) {
        const uint32_t output = state_of(states, k)->output;
        struct slot *slot = &states->slots[k];

        if (!slot->bound)
            continue;
        if (run == INLAY_OK && status == INLAY_OK)
            status = commit_state(states, k, runner, diag);
        if (runner->out.wanted[output] != NULL &&
            (runner->out.wanted[output] == slot->next || runner->out.wanted[output] == slot->current))
            runner->out.wanted[output] = NULL;
        if (run == INLAY_NOT_FOUND && states->placed[output].handle != 0 && states->attempts < MAX_ATTEMPTS) {
            states->min_rows = 2 * slot->room; /* the memory had too few rows: the estimate was too low */
            *out_again = true;
        }
        if (run == INLAY_BUSY && states->placed[output].handle != 0)
            states->in_place_failed = *out_again = true;
        states->placed[output] = (inlay_buffer){ 0 };
    }
    runner->out.placed = NULL;
    states->attempts = *out_again ? states->attempts + 1 : 0;
    if (!*out_again)
        states->min_rows = 0;
    return status;
}

int64_t run_states_length(const run_states *states)
{
    int64_t length = 0;

    for (uint32_t k = 0; k < states->prog->env->state_count; k++) {
        const uint32_t axis = state_of(states, k)->axis;
        const inlay_value *current = states->slots[k].current;

        if (current != NULL && axis != INLAY_NONE && current->dims[axis] > length)
            length = current->dims[axis];
    }
    return length;
}

inlay_status run_states_rewind(run_states *states, int64_t length, inlay_diag *diag)
{
    if (length < 0 || length > run_states_length(states))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "states of %lld rows can't be rewound to %lld",
                          (long long)run_states_length(states), (long long)length);
    for (uint32_t k = 0; k < states->prog->env->state_count; k++)
        if (length > 0 && state_of(states, k)->axis == INLAY_NONE)
            return inlay_fail(diag, INLAY_UNSUPPORTED,
                              "state '%s' has no axis that grows: it can only be rewound to "
                              "the beginning; keep a copy with inlay_context_state_fork()",
                              info_of(states, k)->name.data);
    for (uint32_t k = 0; k < states->prog->env->state_count; k++) {
        const uint32_t axis = state_of(states, k)->axis;
        struct slot *slot = &states->slots[k];

        if (slot->current == NULL)
            continue;
        if (axis == INLAY_NONE) {
            clear_slot(slot);
        } else if (slot->current->dims[axis] > length) {
            char *data = value_data(slot->current);

            if (!value_is_reusable(slot->current) &&
                slot->room == 0) { /* the caller holds the output of the last run */
                inlay_value *copy;
                inlay_status status = copy_with_capacity(states, slot, axis, 0, &copy, diag);

                if (status != INLAY_OK)
                    return status;
                value_unref(slot->current);
                slot->current = copy;
                data = value_data(copy);
            }
            if (slot->room == 0)
                copy_rows(slot->current, axis, data, length, data, slot->current->dims[axis], length);
            slot->current->dims[axis] = length;
            if (slot->room == 0)
                (void)value_reshape(slot->current, slot->current->dtype, slot->current->rank, slot->current->dims);
        }
    }
    return INLAY_OK;
}

inlay_status run_states_fork(run_states *states, const run_states *from, inlay_diag *diag)
{
    for (uint32_t k = 0; k < states->prog->env->state_count && states != from; k++) {
        struct slot fresh = { .room = from->slots[k].room };

        if (from->slots[k].current != NULL) {
            inlay_status status = copy_with_capacity(states, &from->slots[k], state_of(states, k)->axis, fresh.room,
                                                     &fresh.current, diag);

            if (status != INLAY_OK)
                return status;
        }
        clear_slot(&states->slots[k]);
        states->slots[k] = fresh;
    }
    return INLAY_OK;
}

bool run_states_fixed(const run_states *states)
{
    for (uint32_t k = 0; k < states->prog->env->state_count; k++)
        if (state_of(states, k)->axis == INLAY_NONE)
            return true;
    return false;
}

/* Checks that the row's state k can be copied into a batch of rows of the shape [rows, ...]. */
static inlay_status check_joined(const states_row *row, uint32_t k, const inlay_value *shape, int64_t rows,
                                 inlay_diag *diag)
{
    const inlay_value *from = row->from->slots[k].current;
    const uint32_t axis = state_of(row->from, k)->axis;
    bool fits = shape != NULL && from != NULL && from->rank == shape->rank && from->rank > 0 &&
                from->dtype == shape->dtype && from->dims[0] % row->rows == 0 &&
                from->dims[0] / row->rows * rows == shape->dims[0] &&
                (axis == INLAY_NONE || row->length <= from->dims[axis]);

    for (uint32_t d = 1; fits && d < from->rank; d++)
        fits = d == axis || from->dims[d] == shape->dims[d];
    return fits
               ? INLAY_OK
               : inlay_fail(diag, INLAY_UNSUPPORTED,
                            "state '%s' cannot be copied by rows: its sizes are not those of %u rows, of which one has "
                            "%lld tokens",
                            info_of(row->from, k)->name.data, row->rows, (long long)row->length);
}

/* Creates a joined value with memory for `spare` further entries of axis 0, if a limit of memory permits. */
static inlay_status create_joined(const run_states *states, const inlay_value *shape, int64_t *dims, int64_t spare,
                                  bool zeroed, inlay_value **out_value, inlay_diag *diag)
{
    const int64_t wanted = dims[0];
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status;

    dims[0] += spare;
    status = value_create_state(states->memory, shape->dtype, shape->rank, dims, zeroed, out_value, &why);
    dims[0] = wanted;
    if (status == INLAY_LIMIT_EXCEEDED && spare > 0)
        return value_create_state(states->memory, shape->dtype, shape->rank, dims, zeroed, out_value, diag);
    if (status != INLAY_OK)
        return inlay_fail(diag, status, "%s", why.text);
    (*out_value)->dims[0] = wanted;
    return INLAY_OK;
}

/* Makes the joined value of state k: *out has memory with capacity for out->room rows. */
static inlay_status join_state(const run_states *states, uint32_t k, bool at_end, const states_row *rows,
                               uint32_t count, struct shared_row *shared, struct slot *out, inlay_diag *diag)
{
    const uint32_t axis = state_of(states, k)->axis;
    const bool in_place = !states->in_place_failed && states->prog->state_steps[k] != INLAY_NONE;
    int64_t dims[INLAY_MAX_RANK] = { 0 }, width = 0;
    const states_row *like = NULL;
    const inlay_value *shape;
    bool padded = false;
    int64_t each;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].kept > 0)
            like = &rows[i];
        padded |= rows[i].kept != rows[0].kept;
        width = rows[i].kept > width ? rows[i].kept : width;
    }
    if (like == NULL)
        return INLAY_OK;
    shape = like->from->slots[k].current;
    for (uint32_t i = 0; status == INLAY_OK && i < count; i++)
        if (rows[i].kept > 0)
            status = check_joined(&rows[i], k, shape, like->rows, diag);
    if (status != INLAY_OK)
        return status;
    memcpy(dims, shape->dims, shape->rank * sizeof *dims);
    each = dims[0] / like->rows;
    dims[0] = each * count;
    if (axis != INLAY_NONE) {
        const int64_t least = width + 1 > (int64_t)states->rows ? width + 1 : (int64_t)states->rows;

        out->room = in_place ? (least + ROW_MULTIPLE - 1) / ROW_MULTIPLE * ROW_MULTIPLE : 0;
        dims[axis] = in_place ? out->room : width;
    }
    out->cleared = out->room != 0 && count > 1 && !at_end;
    /* The mask hides padding, but a product with it must be a number. */
    status = create_joined(states, shape, dims, out->cleared ? each * (count / 2) : 0, padded && !out->cleared,
                           &out->current, diag);
    if (status != INLAY_OK)
        return status;
    if (axis != INLAY_NONE)
        out->current->dims[axis] = width;
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].kept > 0)
            copy_joined(&rows[i], k, at_end, out->current, axis == INLAY_NONE ? 1 : dims[axis], i, count, &shared[i]);
        if (out->cleared)
            clear_entries(out->current, axis, out->room, i * blocks_of(out->current, axis) / count,
                          blocks_of(out->current, axis) / count, rows[i].kept, out->room);
    }
    return INLAY_OK;
}

/* Whether state k has memory for the rows, and those that stay come first, in their order: the others can be moved to
 * the front, and new ones be copied behind them. */
static bool joins_in_place(const run_states *states, uint32_t k, const states_row *rows, uint32_t count)
{
    const uint32_t axis = state_of(states, k)->axis;
    const struct slot *slot = &states->slots[k];
    int64_t row_bytes;
    bool own = true;

    if (axis == INLAY_NONE || axis == 0 || slot->room == 0 || slot->current == NULL || count == 0 ||
        count > states->row_room || rows[0].from != states || states->in_place_failed)
        return false;
    row_bytes = inlay_dtype_bits(slot->current->dtype) / 8 * slot->room;
    for (uint32_t d = 0; d < slot->current->rank; d++)
        row_bytes *= d != axis ? slot->current->dims[d] : 1;
    row_bytes /= rows[0].rows;
    if ((uint64_t)row_bytes * count > slot->current->capacity ||
        (uint64_t)row_bytes * count * 4 < slot->current->capacity) /* too large: the memory is worth a copy */
        return false;
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].kept <= 0 || rows[i].kept >= slot->room || (!own && rows[i].from == states) ||
            (rows[i].from == states && (rows[i].row < i || (i > 0 && rows[i].row <= rows[i - 1].row))))
            return false;
        own = rows[i].from == states;
    }
    return true;
}

static void join_in_place(run_states *states, uint32_t k, const states_row *rows, uint32_t count)
{
    const uint32_t axis = state_of(states, k)->axis;
    struct slot *slot = &states->slots[k];
    inlay_value *value = slot->current;
    const uint32_t had = rows[0].rows;
    const int64_t each = value->dims[0] / had, blocks = blocks_of(value, axis) / had, written = value->dims[axis];
    int64_t width = 0;

    for (uint32_t i = 0; i < count; i++) {
        const bool stays = rows[i].from == states && rows[i].row == i;

        width = rows[i].kept > width ? rows[i].kept : width;
        if (!stays)
            copy_joined(&rows[i], k, false, value, slot->room, i, count > had ? count : had, &states->shared[i]);
        if (!slot->cleared || i >= had)
            clear_entries(value, axis, slot->room, i * blocks, blocks, rows[i].kept, slot->room);
        else if (!stays || rows[i].kept < rows[i].length)
            clear_entries(value, axis, slot->room, i * blocks, blocks, rows[i].kept, written);
    }
    slot->cleared = true;
    value->dims[0] = each * count;
    value->dims[axis] = width;
}

/* Gives the rows that join_in_place() will make what they share. */
static void share_in_place(run_states *states, const states_row *rows, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct shared_row next;

        if (rows[i].from == states && rows[i].row == i)
            continue;
        next = share_row(states, &rows[i]);
        forget_rows(&states->shared[i], 1);
        states->shared[i] = next;
    }
    forget_rows(states->shared + count, states->row_room - count);
    states->row_count = count;
}

inlay_status run_states_join(run_states *states, bool at_end, const states_row *rows, uint32_t count, inlay_diag *diag)
{
    const uint32_t state_count = states->prog->env->state_count;
    const bool shares = !at_end && keeps_entries(states);
    struct shared_row *shared;
    struct slot *joined;
    bool in_place = !at_end;
    inlay_status status = INLAY_OK;

    for (uint32_t k = 0; in_place && k < state_count; k++)
        in_place = joins_in_place(states, k, rows, count);
    for (uint32_t k = 0; in_place && k < state_count; k++)
        for (uint32_t i = 0; status == INLAY_OK && i < count; i++)
            status = check_joined(&rows[i], k, states->slots[k].current, rows[0].rows, diag);
    if (status != INLAY_OK)
        return status;
    if (in_place) {
        share_in_place(states, rows, count);
        for (uint32_t k = 0; k < state_count; k++)
            join_in_place(states, k, rows, count);
        return INLAY_OK;
    }
    joined = calloc(state_count + 1u, sizeof *joined);
    shared = calloc(count + count / 2 + 1u, sizeof *shared); /* as many as the memory has capacity for */
    status = joined != NULL && shared != NULL ? INLAY_OK : no_memory(diag, "for the rows of a context");
    for (uint32_t i = 0; status == INLAY_OK && shares && i < count; i++)
        if (rows[i].kept > 0)
            shared[i] = share_row(states, &rows[i]);
    for (uint32_t k = 0; status == INLAY_OK && k < state_count; k++)
        status = join_state(states, k, at_end, rows, count, shared, &joined[k], diag);
    for (uint32_t k = 0; joined != NULL && k < state_count; k++) {
        if (status == INLAY_OK) {
            clear_slot(&states->slots[k]);
            states->slots[k] = joined[k];
        } else {
            clear_slot(&joined[k]);
        }
    }
    free(joined);
    if (status != INLAY_OK) {
        forget_rows(shared, shared != NULL ? count : 0);
        free(shared);
        return status;
    }
    forget_rows(states->shared, states->row_room);
    free(states->shared);
    states->shared = shared;
    states->row_count = count;
    states->row_room = count + count / 2 + 1;
    return INLAY_OK;
}

inlay_status run_states_get(const run_states *states, uint32_t state, inlay_value **out_value, inlay_diag *diag)
{
    INLAY_CHECK(state < states->prog->env->state_count);
    if (states->slots[state].current == NULL)
        return inlay_fail(diag, INLAY_NOT_FOUND, "state '%s' has no value yet", info_of(states, state)->name.data);
    return copy_with_capacity(states, &states->slots[state], state_of(states, state)->axis, 0, out_value, diag);
}

inlay_status run_states_set(run_states *states, uint32_t state, const inlay_value *value, inlay_diag *diag)
{
    const struct slot given = { .current = (inlay_value *)(uintptr_t)value };
    struct slot fresh = { .current = NULL };
    inlay_status status = copy_with_capacity(states, &given, state_of(states, state)->axis, 0, &fresh.current, diag);

    if (status != INLAY_OK)
        return status;
    clear_slot(&states->slots[state]);
    states->slots[state] = fresh;
    return INLAY_OK;
}
