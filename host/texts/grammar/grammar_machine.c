/* The program of a grammar, and the machine that walks through its states. */
#include "texts/grammar/grammar_internal.h"
#include "inlay/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_STEPS = 1 << 20,
    STEP_BYTES = 2 * sizeof(program_step), /* with its place in a table */
    MAX_STATES = 3 << 14,
    MAX_NESTING = 2000,      /* of expressions */
    MAX_POSITIONS = 1 << 16, /* of a state */
    POSITION_STEPS = 2,      /* to add a position of a part, and to order it */
    MAX_WORK = 1 << 25,      /* positions of all states: less than a second */
    MAX_USERS = 512,         /* pointers of the caller */
    MAX_DEPTH = 256          /* of rules within rules that a text has begun; texts that need more are not continued */
};

static uint32_t add_step(struct grammar *grammar, program_step value)
{
    if (!grammar_spend(grammar, 1))
        return 0;
    if (grammar->program.step_count == MAX_STEPS || !grammar_take(grammar, STEP_BYTES)) {
        grammar_stop(grammar, "more than 1,048,576 steps of its program");
        return 0;
    }
    if (!LIST_GROW(grammar->program.steps, grammar->program.step_count)) {
        grammar->no_memory = true;
        return 0;
    }
    grammar->program.steps[grammar->program.step_count] = value;
    return grammar->program.step_count++;
}

static uint32_t compile(struct grammar *grammar, grammar_node which, uint32_t next);

/* The required copies, and then either a loop or one optional copy within the other. */
static uint32_t compile_repeat(struct grammar *grammar, const grammar_expression *repeat, uint32_t next)
{
    uint32_t at = next;

    if (repeat->most == GRAMMAR_MANY) {
        uint32_t loop = add_step(grammar, (program_step){ .kind = STEP_SPLIT, .other = next });
        uint32_t body = compile(grammar, repeat->first, loop);

        if (grammar_has_ended(grammar, NULL))
            return 0;
        grammar->program.steps[loop].next = body;
        at = loop;
    }
    for (uint32_t i = repeat->least;
         repeat->most != GRAMMAR_MANY && i < repeat->most && !grammar_has_ended(grammar, NULL); i++)
        at = add_step(grammar,
                      (program_step){ .kind = STEP_SPLIT, .next = compile(grammar, repeat->first, at), .other = next });
    for (uint32_t i = 0; i < repeat->least && !grammar_has_ended(grammar, NULL); i++)
        at = compile(grammar, repeat->first, at);
    return at;
}

/* The place of a BYTE step in the table, or a free one. */
static uint32_t *byte_place(const grammar_program *program, const program_step *step)
{
    uint64_t hash = ((uint64_t)step->next << 16 | (uint64_t)step->low << 8 | step->high) * UINT64_C(0x9e3779b97f4a7c15);

    for (uint32_t at = (uint32_t)(hash >> 32);; at++) {
        uint32_t *place = &program->byte_steps[at & (program->byte_room - 1)];
        const program_step *found = &program->steps[*place];

        if (*place == 0 || (found->low == step->low && found->high == step->high && found->next == step->next))
            return place;
    }
}

/* Makes room for one more BYTE step in the table. */
static bool grow_bytes(grammar_program *program)
{
    grammar_program larger = *program;

    if (2 * program->byte_count < program->byte_room)
        return true;
    larger.byte_room = program->byte_room > 0 ? 2 * program->byte_room : 64;
    larger.byte_steps = calloc(larger.byte_room, sizeof *larger.byte_steps);
    if (larger.byte_steps == NULL)
        return false;
    for (uint32_t i = 0; i < program->byte_room; i++)
        if (program->byte_steps[i] != 0)
            *byte_place(&larger, &program->steps[program->byte_steps[i]]) = program->byte_steps[i];
    free(program->byte_steps);
    *program = larger;
    return true;
}

/* Equal steps are one, so that characters of several bytes share their last bytes, and states are few. */
static uint32_t compile_byte(struct grammar *grammar, uint32_t low, uint32_t high, uint32_t next)
{
    const program_step step = { .kind = STEP_BYTE, .low = (uint8_t)low, .high = (uint8_t)high, .next = next };
    grammar_program *program = &grammar->program;
    uint32_t *place, added;

    if (!grow_bytes(program)) {
        grammar->no_memory = true;
        return 0;
    }
    place = byte_place(program, &step);
    if (*place != 0)
        return *place;
    added = add_step(grammar, step);
    *place = added;
    program->byte_count += added != 0;
    return added;
}

/* Each state is a split: into the end of the expression, if it accepts, and its edges, which are inserted one after the
 * other. */
static uint32_t compile_graph(struct grammar *grammar, const state_graph *graph, uint32_t next)
{
    const uint32_t never = compile_byte(grammar, 1, 0, next), heads = grammar->program.step_count;

    for (uint32_t i = 0; i < graph->state_count && !grammar_has_ended(grammar, NULL); i++) {
        const uint32_t end = graph->accepts[i] ? next : never;

        (void)add_step(grammar, (program_step){ .kind = STEP_SPLIT, .next = end, .other = end });
    }
    for (uint32_t i = 0; i < graph->edge_count && !grammar_has_ended(grammar, NULL); i++) {
        const grammar_edge *edge = &graph->edges[i];
        const uint32_t step = compile_byte(grammar, edge->low, edge->high, heads + edge->to);
        const uint32_t split = add_step(
            grammar, (program_step){
                         .kind = STEP_SPLIT, .next = step, .other = grammar->program.steps[heads + edge->from].other });

        if (!grammar_has_ended(grammar, NULL))
            grammar->program.steps[heads + edge->from].other = split;
    }
    return heads; /* the first state is the start */
}

/* Sequences and lists of alternatives are nested in their first parts, without a bound. */
static uint32_t compile_sequence(struct grammar *grammar, const grammar_expression *value, uint32_t next)
{
    for (; value->kind == NODE_SEQUENCE && !grammar_has_ended(grammar, NULL); value = &grammar->nodes[value->first])
        next = compile(grammar, value->second, next);
    return compile(grammar, (uint32_t)(value - grammar->nodes), next);
}

static uint32_t compile_either(struct grammar *grammar, const grammar_expression *value, uint32_t next)
{
    uint32_t all = compile(grammar, value->second, next), one;

    for (value = &grammar->nodes[value->first]; value->kind == NODE_EITHER && !grammar_has_ended(grammar, NULL);
         value = &grammar->nodes[value->first]) {
        one = compile(grammar, value->second, next);
        all = add_step(grammar, (program_step){ .kind = STEP_SPLIT, .next = one, .other = all });
    }
    one = compile(grammar, (uint32_t)(value - grammar->nodes), next);
    return add_step(grammar, (program_step){ .kind = STEP_SPLIT, .next = one, .other = all });
}

static uint32_t compile_kind(struct grammar *grammar, const grammar_expression *value, uint32_t next)
{
    switch (value->kind) {
    case NODE_EMPTY:
        return next;
    case NODE_NEVER: /* no byte is from 1 to 0 */
        return compile_byte(grammar, 1, 0, next);
    case NODE_BYTE:
        return compile_byte(grammar, value->first, value->second, next);
    case NODE_TEXT:
        for (uint32_t i = value->second; i > value->first; i--) {
            uint8_t byte = (uint8_t)grammar->texts.data[i - 1];

            next = compile_byte(grammar, byte, byte, next);
        }
        return next;
    case NODE_SEQUENCE:
        return compile_sequence(grammar, value, next);
    case NODE_EITHER:
        return compile_either(grammar, value, next);
    case NODE_REPEAT:
        return compile_repeat(grammar, value, next);
    case NODE_RULE:
        return add_step(grammar, (program_step){ .kind = STEP_CALL, .next = next, .other = value->first });
    case NODE_GRAPH:
        return compile_graph(grammar, &grammar->graphs[value->first], next);
    }
    return 0;
}

/* Returns the first step of the expression, after which comes `next`. */
static uint32_t compile(struct grammar *grammar, grammar_node which, uint32_t next)
{
    const grammar_expression value = grammar->nodes[which];
    uint32_t first;

    if (grammar->nesting == MAX_NESTING)
        grammar_stop(grammar, "more than 2,000 nested expressions");
    if (!grammar_spend(grammar, 1))
        return 0;
    grammar->nesting++;
    first = compile_kind(grammar, &value, next);
    grammar->nesting--;
    return first;
}

/* Whether the position is new. */
static bool mark_seen(struct grammar *grammar, machine_position value)
{
    uint64_t hash = ((uint64_t)value.step << 32 | value.frame) * UINT64_C(0x9e3779b97f4a7c15);

    if (2 * grammar->machine.growing.seen_count >= grammar->machine.growing.seen_room) { /* a larger table */
        uint32_t room = grammar->machine.growing.seen_room > 0 ? 2 * grammar->machine.growing.seen_room : 64,
                 old_room = grammar->machine.growing.seen_room;
        uint32_t *seen = calloc(room, sizeof *seen), *old = grammar->machine.growing.seen;
        machine_position *positions = malloc(room * sizeof *positions),
                         *old_positions = grammar->machine.growing.seen_positions;

        if (seen == NULL || positions == NULL) {
            free(seen);
            free(positions);
            grammar->machine.failed = true;
            return false;
        }
        grammar->machine.growing.seen = seen;
        grammar->machine.growing.seen_positions = positions;
        grammar->machine.growing.seen_room = room;
        grammar->machine.growing.seen_count = 0;
        for (uint32_t i = 0; i < old_room; i++)
            if (old[i] == grammar->machine.growing.round)
                (void)mark_seen(grammar, old_positions[i]);
        free(old);
        free(old_positions);
    }
    for (uint32_t at = (uint32_t)(hash >> 32) & (grammar->machine.growing.seen_room - 1);;
         at = (at + 1) & (grammar->machine.growing.seen_room - 1)) {
        if (grammar->machine.growing.seen[at] != grammar->machine.growing.round) {
            grammar->machine.growing.seen[at] = grammar->machine.growing.round;
            grammar->machine.growing.seen_positions[at] = value;
            grammar->machine.growing.seen_count++;
            return true;
        }
        if (memcmp(&grammar->machine.growing.seen_positions[at], &value, sizeof value) == 0)
            return false;
    }
}

/* The frame that returns to step `next` and then to `parent`; 0: it is too deep, or cannot be made. */
static uint32_t push(struct grammar *grammar, uint32_t next, uint32_t parent)
{
    frame_key key = { next, parent };
    uint32_t depth = parent > 0 ? grammar->machine.frames[parent]->depth + 1 : 1;
    call_frame *found;

    HASH_FIND(hh, grammar->machine.frame_table, &key, sizeof key, found);
    if (found != NULL)
        return found->index;
    if (depth > MAX_DEPTH)
        return 0;
    found = grammar_take(grammar, sizeof *found + sizeof *grammar->machine.frames) &&
                    LIST_GROW(grammar->machine.frames, grammar->machine.frame_count)
                ? malloc(sizeof *found)
                : NULL;
    if (found == NULL) {
        grammar->machine.failed = true;
        return 0;
    }
    *found = (call_frame){ .key = key, .index = grammar->machine.frame_count, .depth = depth };
    HASH_ADD(hh, grammar->machine.frame_table, key, sizeof found->key, found);
    grammar->machine.frames[grammar->machine.frame_count] = found;
    return grammar->machine.frame_count++;
}

/* Makes room for one more position in `work`. */
static bool make_room(struct grammar *grammar)
{
    uint32_t room = grammar->machine.growing.work_room > 0 ? 2 * grammar->machine.growing.work_room : 64;
    machine_position *more;

    if (grammar->machine.growing.work_count < grammar->machine.growing.work_room)
        return true;
    more = room <= MAX_POSITIONS ? realloc(grammar->machine.growing.work, room * sizeof *more) : NULL;
    if (more == NULL) {
        grammar->machine.failed = true;
        return false;
    }
    grammar->machine.growing.work = more;
    grammar->machine.growing.work_room = room;
    return true;
}

static void add_work(struct grammar *grammar, machine_position value)
{
    if (grammar->machine.failed || !mark_seen(grammar, value))
        return;
    if (grammar->machine.work_done++ == MAX_WORK ||
        (grammar->owner != NULL && !grammar_spend(grammar, POSITION_STEPS))) {
        grammar->machine.failed = true;
        return;
    }
    if (!make_room(grammar))
        return;
    grammar->machine.growing.work[grammar->machine.growing.work_count++] = value;
}

/* Follows the steps that take no byte from the positions in `work`, which keeps those that take one. */
static void follow(struct grammar *grammar)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < grammar->machine.growing.work_count && !grammar->machine.failed; i++) {
        const machine_position at = grammar->machine.growing.work[i];
        const program_step *one = &grammar->program.steps[at.step];

        if (one->kind == STEP_BYTE) {
            if (one->low <= one->high)
                grammar->machine.growing.work[kept++] = at;
        } else if (one->kind == STEP_SPLIT) {
            add_work(grammar, (machine_position){ one->next, at.frame });
            add_work(grammar, (machine_position){ one->other, at.frame });
        } else if (one->kind == STEP_CALL && one->next == 0) { /* the last step of a rule: no return to it is needed */
            add_work(grammar, (machine_position){ grammar->rules[one->other], at.frame });
        } else if (one->kind == STEP_CALL) {
            uint32_t frame = push(grammar, one->next, at.frame);

            if (frame != 0)
                add_work(grammar, (machine_position){ grammar->rules[one->other], frame });
        } else if (at.frame == 0) {
            grammar->machine.growing.accepts = true;
        } else {
            add_work(grammar, (machine_position){ grammar->machine.frames[at.frame]->key.step,
                                                  grammar->machine.frames[at.frame]->key.parent });
        }
    }
    grammar->machine.growing.work_count = kept;
}

static int by_position(const void *left, const void *right)
{
    const machine_position *a = left, *b = right;

    return a->step != b->step ? (a->step > b->step) - (a->step < b->step)
                              : (a->frame > b->frame) - (a->frame < b->frame);
}

static void begin_state(struct grammar *grammar)
{
    grammar->machine.growing.work_count = grammar->machine.growing.seen_count = 0;
    grammar->machine.growing.accepts = false;
    grammar->machine.growing.round++;
}

/* The state of the positions in `work`. Its key ends with whether it accepts. */
static uint32_t end_state(struct grammar *grammar)
{
    machine_state *state;
    size_t bytes, state_bytes;

    follow(grammar);
    if (!grammar->machine.failed && grammar->machine.growing.work_count == 0 && !grammar->machine.growing.accepts)
        return GRAMMAR_DEAD;
    qsort(grammar->machine.growing.work, grammar->machine.growing.work_count, sizeof *grammar->machine.growing.work,
          by_position);
    if (grammar->machine.failed || !make_room(grammar))
        return GRAMMAR_DEAD;
    grammar->machine.growing.work[grammar->machine.growing.work_count] =
        (machine_position){ grammar->machine.growing.accepts, UINT32_MAX };
    bytes = (grammar->machine.growing.work_count + 1) * sizeof *grammar->machine.growing.work;
    HASH_FIND(hh, grammar->machine.state_table, grammar->machine.growing.work, bytes, state);
    if (state != NULL)
        return state->index;
    state_bytes = sizeof *state + grammar->program.class_count * sizeof *state->next;
    state = grammar->machine.state_count < MAX_STATES && grammar_take(grammar, state_bytes + bytes) &&
                    LIST_GROW(grammar->machine.states, grammar->machine.state_count)
                ? calloc(1, state_bytes)
                : NULL;
    if (state != NULL)
        state->positions = malloc(bytes);
    if (state == NULL || state->positions == NULL) {
        free(state);
        grammar->machine.failed = true;
        return GRAMMAR_DEAD;
    }
    memcpy(state->positions, grammar->machine.growing.work, bytes);
    state->count = grammar->machine.growing.work_count;
    state->accepts = grammar->machine.growing.accepts;
    state->index = grammar->machine.state_count;
    HASH_ADD_KEYPTR(hh, grammar->machine.state_table, state->positions, bytes, state);
    grammar->machine.states[grammar->machine.state_count] = state;
    return grammar->machine.state_count++;
}

/* Makes the program of a rule, and of those that it refers to unless they have one. */
static void compile_rule(struct grammar *grammar, uint32_t rule)
{
    INLAY_CHECK(grammar->rules[rule] != GRAMMAR_DEAD);
    grammar->rules[rule] = compile(grammar, grammar->rules[rule], 0);
}

static void find_classes(struct grammar *grammar)
{
    bool begins[256 + 1] = { true };
    uint32_t count = 0;

    for (uint32_t i = 0; i < grammar->program.step_count; i++)
        if (grammar->program.steps[i].kind == STEP_BYTE &&
            grammar->program.steps[i].low <= grammar->program.steps[i].high)
            begins[grammar->program.steps[i].low] = begins[grammar->program.steps[i].high + 1] = true;
    for (uint32_t byte = 0; byte < 256; byte++) {
        count += begins[byte];
        grammar->program.class_of[byte] = (uint8_t)(count - 1);
    }
    grammar->program.class_count = count;
}

/* Begins the machine at a rule. */
static bool start_machine(struct grammar *grammar, uint32_t rule, char *why)
{
    uint32_t start = GRAMMAR_DEAD;

    grammar->no_memory |= !LIST_GROW(grammar->machine.frames, 0);
    grammar->machine.frame_count = 1; /* there is no frame 0 */
    if (grammar_has_ended(grammar, why))
        return false;
    if (grammar->rule_count == 0) {
        (void)snprintf(why, GRAMMAR_WHY_BYTES, "the grammar has no rule");
        return false;
    }
    free(grammar->program.byte_steps);
    grammar->program.byte_steps = NULL;
    find_classes(grammar);
    begin_state(grammar);
    add_work(grammar, (machine_position){ grammar->rules[rule], 0 });
    start = end_state(grammar);
    if (grammar->machine.failed)
        grammar_stop(grammar, "more than 65,536 positions of its first state");
    if (grammar_has_ended(grammar, why))
        return false;
    if (start == GRAMMAR_DEAD)
        (void)snprintf(why, GRAMMAR_WHY_BYTES, "no text matches the grammar");
    INLAY_CHECK(start == 0 || start == GRAMMAR_DEAD);
    return start == 0;
}

bool grammar_finish(struct grammar *grammar, char *why)
{
    why[0] = '\0';
    if (grammar_has_ended(grammar, why))
        return false;
    INLAY_CHECK(!grammar->finished);
    grammar->finished = true;
    (void)add_step(grammar, (program_step){ .kind = STEP_RETURN });
    for (uint32_t i = 0; i < grammar->rule_count && !grammar_has_ended(grammar, NULL); i++) {
        if (grammar->rules[i] == GRAMMAR_DEAD) {
            (void)snprintf(why, GRAMMAR_WHY_BYTES, "rule %u of the grammar is not defined", i);
            return false;
        }
        compile_rule(grammar, i);
    }
    return start_machine(grammar, 0, why);
}

struct grammar *grammar_copy(const struct grammar *grammar)
{
    const size_t step_bytes = grammar->program.step_count * sizeof(program_step);
    struct grammar *copy = calloc(1, sizeof *copy);
    char why[GRAMMAR_WHY_BYTES];
    bool good = copy != NULL;

    INLAY_CHECK(grammar->finished && grammar->owner == NULL);
    if (good) {
        copy->finished = true;
        copy->program.steps = malloc(step_bytes + 1);
        copy->rules = malloc(grammar->rule_count * sizeof *copy->rules + 1);
        good = copy->program.steps != NULL && copy->rules != NULL &&
               grammar_take(copy, (size_t)grammar->program.step_count * STEP_BYTES);
    }
    if (good) {
        memcpy(copy->program.steps, grammar->program.steps, step_bytes);
        memcpy(copy->rules, grammar->rules, grammar->rule_count * sizeof *copy->rules);
        copy->program.step_count = grammar->program.step_count;
        copy->rule_count = grammar->rule_count;
        good = start_machine(copy, 0, why);
    }
    if (good)
        return copy;
    grammar_destroy(copy);
    return NULL;
}

size_t grammar_bytes(const struct grammar *grammar)
{
    return sizeof *grammar + grammar->program.step_count * sizeof(program_step) +
           grammar->rule_count * sizeof *grammar->rules;
}

/* Marks the expressions that the expression consists of, and the rules that it refers to. */
static void find_rules(struct grammar *grammar, grammar_node which, bool *seen, bool *found)
{
    const grammar_expression *value = &grammar->nodes[which];

    if (grammar->nesting == MAX_NESTING)
        grammar_stop(grammar, "more than 2,000 nested expressions");
    if (seen[which] || !grammar_spend(grammar, 1))
        return;
    seen[which] = true;
    grammar->nesting++;
    while ((value->kind == NODE_SEQUENCE || value->kind == NODE_EITHER) && grammar_spend(grammar, 1)) {
        find_rules(grammar, value->second, seen, found);
        which = value->first;
        value = &grammar->nodes[which];
    }
    if (value->kind == NODE_REPEAT) {
        find_rules(grammar, value->first, seen, found);
    } else if (value->kind == NODE_RULE && !found[value->first]) {
        found[value->first] = true;
        if (grammar->rules[value->first] != GRAMMAR_DEAD)
            find_rules(grammar, grammar->rules[value->first], seen, found);
    }
    grammar->nesting--;
}

/* Copies the rules, which get steps of their own. Expressions, texts and graphs are the owner's. */
static bool borrow_expressions(struct grammar *from, struct grammar *to)
{
    to->owner = from;
    to->nodes = from->nodes;
    to->texts = from->texts;
    to->graphs = from->graphs;
    to->rules = malloc((from->rule_count + 1u) * sizeof *to->rules);
    if (to->rules == NULL)
        return false;
    if (from->rule_count > 0)
        memcpy(to->rules, from->rules, from->rule_count * sizeof *to->rules);
    to->node_count = from->node_count;
    to->rule_count = from->rule_count;
    to->graph_count = from->graph_count;
    return true;
}

struct grammar *grammar_part(struct grammar *grammar, grammar_node which)
{
    const bool spent = grammar_spend(grammar, grammar != NULL ? (uint64_t)grammar->rule_count + 1 : 0);
    struct grammar *part = spent ? calloc(1, sizeof *part) : NULL;
    bool *found = spent ? calloc((size_t)grammar->rule_count + grammar->node_count + 1u, sizeof *found) : NULL;
    char why[GRAMMAR_WHY_BYTES];
    bool good = part != NULL && found != NULL && borrow_expressions(grammar, part);

    if (good) {
        part->finished = true;
        find_rules(part, which, found + grammar->rule_count, found);
        (void)add_step(part, (program_step){ .kind = STEP_RETURN });
        for (uint32_t i = 0; i < grammar->rule_count && good; i++) {
            good = !found[i] || part->rules[i] != GRAMMAR_DEAD;
            if (found[i] && good)
                compile_rule(part, i);
        }
    }
    if (good) { /* borrow_expressions() has made room for one more rule */
        part->rules[part->rule_count] = which;
        compile_rule(part, part->rule_count++);
        part->is_empty = !start_machine(part, part->rule_count - 1, why);
        good = !grammar_has_ended(part, NULL) && !part->machine.failed;
    }
    free(found);
    if (!good)
        grammar_destroy(part);
    return good ? part : NULL;
}

uint32_t grammar_work(const struct grammar *grammar)
{
    return grammar->machine.work_done;
}

uint8_t grammar_class(const struct grammar *grammar, uint8_t byte)
{
    return grammar->program.class_of[byte];
}

uint32_t grammar_start(const struct grammar *grammar)
{
    if (grammar->is_empty)
        return GRAMMAR_DEAD;
    INLAY_CHECK(grammar->machine.state_count > 0);
    return 0;
}

uint32_t grammar_next(struct grammar *grammar, uint32_t index, uint8_t byte)
{
    machine_state *state;
    uint32_t low = 0, high = UINT8_MAX, next; /* from low to high: bytes that the same positions take */

    if (index == GRAMMAR_DEAD || grammar->machine.failed)
        return GRAMMAR_DEAD;
    state = grammar->machine.states[index];
    next = state->next[grammar->program.class_of[byte]];
    if (next != 0)
        return next == GRAMMAR_DEAD ? GRAMMAR_DEAD : next - 1;
    begin_state(grammar);
    for (uint32_t i = 0; i < state->count; i++) {
        const program_step *one = &grammar->program.steps[state->positions[i].step];
        const bool before = byte<one->low, behind = byte> one->high;
        const uint32_t from = before ? 0 : behind ? one->high + 1u : one->low;
        const uint32_t to = before ? one->low - 1u : behind ? UINT8_MAX : one->high;

        low = from > low ? from : low;
        high = to < high ? to : high;
        if (!before && !behind)
            add_work(grammar, (machine_position){ one->next, state->positions[i].frame });
    }
    next = end_state(grammar);
    for (uint32_t same = grammar->program.class_of[low];
         same <= grammar->program.class_of[high] && !grammar->machine.failed; same++)
        state->next[same] = next == GRAMMAR_DEAD ? GRAMMAR_DEAD : next + 1;
    return next;
}

bool grammar_accepts(const struct grammar *grammar, uint32_t state)
{
    return state != GRAMMAR_DEAD && grammar->machine.states[state]->accepts;
}

bool grammar_failed(const struct grammar *grammar)
{
    return grammar->machine.failed;
}

void *grammar_user(const struct grammar *grammar, uint32_t state)
{
    return grammar->machine.states[state]->user;
}

void grammar_set_user(struct grammar *grammar, uint32_t state, void *user)
{
    if (grammar->machine.user_count == MAX_USERS) {
        for (uint32_t i = 0; i < grammar->machine.state_count; i++) {
            free(grammar->machine.states[i]->user);
            grammar->machine.states[i]->user = NULL;
        }
        grammar->machine.user_count = 0;
    }
    grammar->machine.states[state]->user = user;
    grammar->machine.user_count++;
}
