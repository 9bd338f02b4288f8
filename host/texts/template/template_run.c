/* The machine that walks the tree of a template. */
#include "texts/template/template_internal.h"
#include <stdlib.h>

typedef enum outcome { WENT_ON, BROKE, CONTINUED, FAILED } outcome;

static bool evaluate(struct machine *machine, const struct node *node, struct value *out);
static outcome run(struct machine *machine, const struct node *statements);

static bool fail(struct machine *machine, const char *what, const struct value *detail)
{
    bool named = detail != NULL && detail->kind == VALUE_TEXT;

    return machine_fail(machine, INLAY_UNSUPPORTED, what, named ? detail->text : "", named ? detail->count : 0);
}

/* Begins a block whose variables end with it. */
static bool push(struct machine *machine, struct frame *parent)
{
    struct frame *frame = machine_memory(machine, sizeof *frame);

    if (frame == NULL)
        return false;
    frame->parent = parent;
    machine->frame = frame;
    return true;
}

static bool evaluate_arguments(struct machine *machine, const struct node *list, struct arguments *out)
{
    out->count = 0;
    for (const struct node *one = list; one != NULL; one = one->next) {
        bool named = one->kind == NODE_ARGUMENT;

        if (out->count == TEMPLATE_ARGUMENTS)
            return fail(machine, "more than 16 arguments", NULL);
        out->names[out->count] = named ? one->text : (struct value){ .kind = VALUE_UNDEFINED };
        if (!evaluate(machine, named ? one->left : one, &out->values[out->count]))
            return false;
        out->count++;
    }
    return true;
}

static bool evaluate_list(struct machine *machine, const struct node *list, struct value *out)
{
    size_t count = 0;
    struct value *values;

    for (const struct node *one = list; one != NULL; one = one->next)
        count++;
    values = machine_memory(machine, count * sizeof *values);
    if (values == NULL)
        return false;
    *out = list_value(values, count);
    for (const struct node *one = list; one != NULL; one = one->next)
        if (!evaluate(machine, one, values++))
            return false;
    return true;
}

static bool evaluate_map(struct machine *machine, const struct node *list, struct value *out)
{
    struct value_space pairs = { 0 };

    for (const struct node *one = list; one != NULL; one = one->next->next) {
        struct value key, value;

        if (!evaluate(machine, one, &key) || !evaluate(machine, one->next, &value) ||
            !space_set(machine, &pairs, key, value))
            return false;
    }
    *out = (struct value){ .kind = VALUE_MAP, .count = pairs.count, .map = pairs.pairs };
    return true;
}

static struct value loop_attribute(const value_loop *loop, const struct value *name)
{
    const size_t count = loop->list.count, index = loop->index;
    const struct {
        const char *name;
        struct value value;
    } attributes[] = {
        { "index", number_value((int64_t)index + 1) },
        { "index0", number_value((int64_t)index) },
        { "revindex", number_value((int64_t)(count - index)) },
        { "revindex0", number_value((int64_t)(count - index) - 1) },
        { "first", bool_value(index == 0) },
        { "last", bool_value(index + 1 == count) },
        { "length", number_value((int64_t)count) },
        { "depth", number_value(loop->depth) },
        { "depth0", number_value((int64_t)loop->depth - 1) },
        { "previtem", index > 0 ? loop->list.list[index - 1] : (struct value){ .kind = VALUE_UNDEFINED } },
        { "nextitem", index + 1 < count ? loop->list.list[index + 1] : (struct value){ .kind = VALUE_UNDEFINED } }
    };

    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (value_is(name, attributes[i].name))
            return attributes[i].value;
    return (struct value){ .kind = VALUE_UNDEFINED };
}

/* value.name, or value["name"]. */
static bool attribute(struct machine *machine, const struct value *of, const struct value *name, struct value *out)
{
    if (of->kind == VALUE_UNDEFINED)
        return fail(machine, "an undefined value has no", name);
    *out = of->kind == VALUE_LOOP ? loop_attribute(of->loop, name) : value_member(machine, of, name);
    return true;
}

static bool element(struct machine *machine, const struct value *of, const struct value *index, struct value *out)
{
    size_t count;
    int64_t at = index->number;

    *out = (struct value){ .kind = VALUE_UNDEFINED };
    if (of->kind == VALUE_UNDEFINED || of->kind >= VALUE_MAP)
        return attribute(machine, of, index, out);
    if (!value_is_whole(index) || !value_length(of, &count))
        return true;
    at += at < 0 ? (int64_t)count : 0;
    if (at < 0 || at >= (int64_t)count)
        return true;
    if (of->kind == VALUE_LIST) {
        *out = of->list[at];
    } else {
        size_t from = value_character(of, (size_t)at), to = value_character(of, (size_t)at + 1);

        *out = text_value(of->text + from, to - from);
    }
    return true;
}

/* left[from:to:step] */
static bool slice(struct machine *machine, const struct value *of, const struct node *parts, struct value *out)
{
    struct value given[3] = { { .kind = VALUE_NONE } };

    for (int i = 0; i < 3; i++, parts = parts != NULL ? parts->next : NULL)
        if (parts != NULL && !evaluate(machine, parts, &given[i]))
            return false;
    return value_slice(machine, of, given, out);
}

static bool compare(struct machine *machine, const struct node *node, struct value *out)
{
    struct value left, right;
    bool holds = true;

    if (!evaluate(machine, node->left, &left))
        return false;
    for (node = node->list; node != NULL && holds; node = node->next) {
        if (!evaluate(machine, node->right, &right) || !value_compare(machine, node->sign, &left, &right, &holds))
            return false;
        left = right;
    }
    *out = bool_value(holds);
    return true;
}

/* Runs the statements; *out is the text that they write. */
static outcome capture(struct machine *machine, const struct node *body, struct value *out)
{
    struct strbuf outer = machine->out;
    outcome how;

    machine->out = (struct strbuf){ 0 };
    how = run(machine, body);
    if (!machine_take(machine, &machine->out, out))
        how = FAILED;
    machine->out = outer;
    return how;
}

/* caller: a macro that the body can call by this name, or UNDEFINED. */
static bool call_macro(struct machine *machine, const value_macro *macro, const struct arguments *given,
                       struct value caller, struct value *out)
{
    struct frame *outer = machine->frame;
    const struct node *definition = macro->definition;
    uint32_t position = 0, loops = machine->loops;
    bool good = push(machine, macro->frame);

    machine->loops = 0;
    for (const struct node *one = definition->list; good && one != NULL; one = one->next) {
        char name[64];
        const struct value *argument;
        struct value value = { .kind = VALUE_UNDEFINED };

        (void)snprintf(name, sizeof name, "%.*s", (int)one->text.count, one->text.text);
        argument = argument_get(given, position++, name);
        if (argument != NULL)
            value = *argument;
        else if (one->left != NULL)
            good = evaluate(machine, one->left, &value);
        good = good && machine_set(machine, one->text, value);
    }
    if (good && caller.kind != VALUE_UNDEFINED)
        good = machine_set(machine, text_value("caller", 6), caller);
    good = good && capture(machine, definition->body, out) != FAILED;
    machine->frame = outer;
    machine->loops = loops;
    return good;
}

/* loop.cycle(...) */
static bool call_loop(struct machine *machine, const value_loop *loop, const struct value *name,
                      const struct arguments *given, struct value *out)
{
    if (!value_is(name, "cycle") || given->count == 0)
        return fail(machine, "loop's", name);
    *out = given->values[loop->index % given->count];
    return true;
}

static bool call(struct machine *machine, const struct node *node, struct value caller, struct value *out)
{
    struct arguments given;
    struct value object;
    bool known = false;

    if (node->left->kind != NODE_NAME && node->left->kind != NODE_ATTRIBUTE)
        return fail(machine, "a call of a value", NULL);
    if (node->left->kind == NODE_ATTRIBUTE) {
        struct value member = { .kind = VALUE_UNDEFINED };

        if (!evaluate(machine, node->left->left, &object) || !evaluate_arguments(machine, node->list, &given))
            return false;
        if (object.kind == VALUE_LOOP)
            return call_loop(machine, object.loop, &node->left->text, &given, out);
        if (object.kind == VALUE_MAP || object.kind == VALUE_NAMESPACE)
            member = value_member(machine, &object, &node->left->text);
        if (member.kind == VALUE_MACRO)
            return call_macro(machine, member.macro, &given, caller, out);
        *out = object;
        return value_method(machine, &node->left->text, out, &given);
    }
    object = machine_find(machine, node->left->text);
    if (!evaluate_arguments(machine, node->list, &given))
        return false;
    if (object.kind == VALUE_MACRO)
        return call_macro(machine, object.macro, &given, caller, out);
    machine->line = node->line;
    if (object.kind == VALUE_UNDEFINED && !value_function(machine, &node->left->text, &given, out, &known))
        return false;
    return known || fail(machine, "the function", &node->left->text);
}

static bool sign_number(struct machine *machine, const struct node *node, struct value *out)
{
    const struct value zero = number_value(0);

    if (!evaluate(machine, node->left, out))
        return false;
    return value_compute(machine, node->kind == NODE_MINUS ? SIGN_SUBTRACT : SIGN_ADD, &zero, out, out);
}

static bool evaluate_kind(struct machine *machine, const struct node *node, struct value *out)
{
    struct value left, right;
    struct arguments given;
    bool good;

    switch (node->kind) {
    case NODE_CONSTANT:
        *out = node->text;
        return true;
    case NODE_NAME:
        *out = machine_find(machine, node->text);
        if (out->kind == VALUE_UNDEFINED && value_is_function(&node->text))
            out->kind = VALUE_FUNCTION;
        return true;
    case NODE_NOTHING:
        *out = (struct value){ .kind = VALUE_UNDEFINED };
        return true;
    case NODE_LIST:
        return evaluate_list(machine, node->list, out);
    case NODE_MAP:
        return evaluate_map(machine, node->list, out);
    case NODE_ATTRIBUTE:
        return evaluate(machine, node->left, &left) && attribute(machine, &left, &node->text, out);
    case NODE_INDEX:
        return evaluate(machine, node->left, &left) && evaluate(machine, node->right, &right) &&
               element(machine, &left, &right, out);
    case NODE_SLICE:
        return evaluate(machine, node->left, &left) && slice(machine, &left, node->list, out);
    case NODE_CALL:
        return call(machine, node, (struct value){ .kind = VALUE_UNDEFINED }, out);
    case NODE_FILTER:
        return evaluate(machine, node->left, out) && evaluate_arguments(machine, node->list, &given) &&
               value_filter(machine, &node->text, out, &given);
    case NODE_TEST:
        if (!evaluate(machine, node->left, &left) || !evaluate_arguments(machine, node->list, &given) ||
            !value_test(machine, &node->text, &left, &given, &good))
            return false;
        *out = bool_value(good != node->negated);
        return true;
    case NODE_NOT:
        if (!evaluate(machine, node->left, out))
            return false;
        *out = bool_value(!value_truth(out));
        return true;
    case NODE_MINUS:
    case NODE_PLUS:
        return sign_number(machine, node, out);
    case NODE_AND:
    case NODE_OR:
        if (!evaluate(machine, node->left, out))
            return false;
        return value_truth(out) == (node->kind == NODE_OR) || evaluate(machine, node->right, out);
    case NODE_BINARY:
        return evaluate(machine, node->left, &left) && evaluate(machine, node->right, &right) &&
               value_compute(machine, node->sign, &left, &right, out);
    case NODE_COMPARE:
        return compare(machine, node, out);
    case NODE_CHOICE:
        return evaluate(machine, node->right, &right) &&
               evaluate(machine, value_truth(&right) ? node->left : node->third, out);
    default:
        return fail(machine, "an expression", NULL);
    }
}

static bool evaluate(struct machine *machine, const struct node *node, struct value *out)
{
    bool good;

    *out = (struct value){ .kind = VALUE_UNDEFINED };
    if (!machine_enter(machine))
        return false;
    machine->line = node->line;
    good = evaluate_kind(machine, node, out);
    machine_leave(machine);
    return good;
}

/* Sets one name, or each of several to an element of the value. */
static bool assign(struct machine *machine, const struct node *target, struct value given)
{
    if (target->kind == NODE_NAME)
        return machine_set(machine, target->text, given);
    if (target->kind == NODE_ATTRIBUTE) {
        struct value space = machine_find(machine, target->text);

        return space.kind == VALUE_NAMESPACE
                   ? space_set(machine, space.space, target->left->text, given)
                   : fail(machine, "an attribute can be set of a namespace only, not of", &target->text);
    }
    if (!value_elements(machine, &given))
        return false;
    target = target->list;
    for (size_t i = 0; i < given.count; i++, target = target->next)
        if (target == NULL || !machine_set(machine, target->text, given.list[i]))
            return target != NULL ? false : fail(machine, "more values than names", NULL);
    return target == NULL || fail(machine, "more names than values", NULL);
}

/* Drops the elements that the loop's condition refuses. */
static bool choose(struct machine *machine, const struct node *node, struct value *list)
{
    struct frame *outer = machine->frame;
    struct value *kept;
    size_t count = 0;

    if (node->right == NULL)
        return true;
    kept = machine_memory(machine, list->count * sizeof *kept);
    for (size_t i = 0; kept != NULL && i < list->count; i++) {
        struct value holds;

        if (!push(machine, outer) || !assign(machine, node->list, list->list[i]) ||
            !evaluate(machine, node->right, &holds))
            return false;
        if (value_truth(&holds))
            kept[count++] = list->list[i];
    }
    machine->frame = outer;
    *list = list_value(kept, count);
    return kept != NULL;
}

static outcome run_for(struct machine *machine, const struct node *node)
{
    struct frame *outer = machine->frame;
    value_loop *loop = machine_memory(machine, sizeof *loop);
    outcome how = WENT_ON;
    struct value list;

    if (loop == NULL || !evaluate(machine, node->left, &list))
        return FAILED;
    if (!value_elements(machine, &list) || !choose(machine, node, &list))
        return FAILED;
    *loop = (value_loop){ .depth = ++machine->loops, .list = list };
    for (; loop->index < list.count && how != BROKE; loop->index++) {
        if (!push(machine, outer) || !assign(machine, node->list, list.list[loop->index]) ||
            !machine_set(machine, text_value("loop", 4), (struct value){ .kind = VALUE_LOOP, .loop = loop }))
            return FAILED;
        how = run(machine, node->body);
        if (how == FAILED)
            return FAILED;
    }
    machine->loops--;
    machine->frame = outer;
    return list.count == 0 ? run(machine, node->other) : WENT_ON;
}

/* The value of filters whose innermost operand, NODE_NOTHING, is the text. */
static bool apply_filters(struct machine *machine, const struct node *filters, struct value text, struct value *out)
{
    struct arguments given;

    if (filters->kind == NODE_NOTHING) {
        *out = text;
        return true;
    }
    if (!machine_enter(machine) || filters->kind != NODE_FILTER)
        return fail(machine, "a filter block with an expression", NULL);
    machine_leave(machine);
    return apply_filters(machine, filters->left, text, out) && evaluate_arguments(machine, filters->list, &given) &&
           value_filter(machine, &filters->text, out, &given);
}

static outcome run_captured(struct machine *machine, const struct node *node)
{
    struct frame *outer = machine->frame;
    struct value text;
    outcome how;

    if (node->kind == NODE_FILTER_BLOCK && !push(machine, outer))
        return FAILED;
    how = capture(machine, node->body, &text);
    machine->frame = outer;
    if (how == FAILED || !apply_filters(machine, node->left, text, &text))
        return FAILED;
    if (node->kind == NODE_SET_BLOCK)
        return assign(machine, node->list, text) ? how : FAILED;
    return machine_print(machine, &machine->out, &text) ? how : FAILED;
}

static bool define(struct machine *machine, const struct node *node, struct value *out)
{
    value_macro *macro = machine_memory(machine, sizeof *macro);

    if (macro == NULL)
        return false;
    *macro = (value_macro){ node, machine->frame };
    *out = (struct value){ .kind = VALUE_MACRO, .macro = macro };
    return true;
}

static outcome run_with(struct machine *machine, const struct node *node)
{
    struct frame *outer = machine->frame;
    outcome how;

    if (!push(machine, outer))
        return FAILED;
    for (const struct node *one = node->list; one != NULL; one = one->next) {
        struct value value;

        if (!evaluate(machine, one->left, &value) || !machine_set(machine, one->text, value))
            return FAILED;
    }
    how = run(machine, node->body);
    machine->frame = outer;
    return how;
}

static outcome run_one(struct machine *machine, const struct node *node)
{
    struct value value;

    switch (node->kind) {
    case NODE_TEXT:
        strbuf_add(&machine->out, node->text.text, node->text.count);
        return WENT_ON;
    case NODE_PRINT:
        return evaluate(machine, node->left, &value) && machine_print(machine, &machine->out, &value) ? WENT_ON
                                                                                                      : FAILED;
    case NODE_FOR:
        return run_for(machine, node);
    case NODE_IF:
        if (!evaluate(machine, node->left, &value))
            return FAILED;
        return run(machine, value_truth(&value) ? node->body : node->other);
    case NODE_SET:
        return evaluate(machine, node->left, &value) && assign(machine, node->list, value) ? WENT_ON : FAILED;
    case NODE_SET_BLOCK:
    case NODE_FILTER_BLOCK:
        return run_captured(machine, node);
    case NODE_MACRO:
        return define(machine, node, &value) && machine_set(machine, node->text, value) ? WENT_ON : FAILED;
    case NODE_CALL_BLOCK:
        return define(machine, node, &value) && call(machine, node->left, value, &value) &&
                       machine_print(machine, &machine->out, &value)
                   ? WENT_ON
                   : FAILED;
    case NODE_WITH:
        return run_with(machine, node);
    case NODE_BREAK:
        return BROKE;
    case NODE_CONTINUE:
        return CONTINUED;
    default:
        return run(machine, node->body);
    }
}

static outcome run(struct machine *machine, const struct node *statements)
{
    outcome how = WENT_ON;

    for (const struct node *one = statements; one != NULL && how == WENT_ON; one = one->next) {
        if (!machine_enter(machine))
            return FAILED;
        machine->line = one->line;
        how = run_one(machine, one);
        machine_leave(machine);
        if (machine->failed)
            return FAILED;
        if (machine->out.failed || machine->out.size > TEMPLATE_TEXT) {
            (void)machine_fail(machine, machine->out.failed ? INLAY_OUT_OF_MEMORY : INLAY_LIMIT_EXCEEDED,
                               "the text has more than 16 MiB", "", 0);
            return FAILED;
        }
    }
    return how;
}

static bool set_variables(struct machine *machine, const template_variable *variables, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct value value;

        if (!value_from_json(machine, variables[i].value, &value) ||
            !machine_set(machine, text_value(variables[i].name, strlen(variables[i].name)), value))
            return false;
    }
    return true;
}

struct template_tree {
    struct node *statements; /* NULL: none */
    void **memory;           /* [memory_count] of the nodes */
    size_t memory_count;
};

static void free_memory(void **memory, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(memory[i]);
    free((void *)memory);
}

inlay_status template_open(const char *form, template_tree **out_tree, inlay_diag *diag)
{
    inlay_diag failure = INLAY_DIAG_INIT;
    struct frame frame = { .parent = NULL };
    struct machine machine = { .line = 1, .diag = &failure, .frame = &frame };
    template_tree *tree = calloc(1, sizeof *tree);
    size_t bytes = strlen(form);

    *out_tree = NULL;
    bytes -= bytes > 0 && form[bytes - 1] == '\n'; /* the last end of line is not part of the template */
    if (tree == NULL)
        (void)machine_fail(&machine, INLAY_OUT_OF_MEMORY, "out of memory for the template", "", 0);
    if (tree == NULL || !template_parse(&machine, form, bytes, &tree->statements)) {
        free_memory(machine.memory, machine.memory_count);
        free(tree);
        return inlay_fail(diag, failure.code, "%s", failure.text);
    }
    tree->memory = machine.memory;
    tree->memory_count = machine.memory_count;
    *out_tree = tree;
    return INLAY_OK;
}

void template_close(template_tree *tree)
{
    if (tree != NULL)
        free_memory(tree->memory, tree->memory_count);
    free(tree);
}

inlay_status template_render(const template_tree *tree, const template_variable *variables, size_t count,
                             char **out_text, inlay_diag *diag)
{
    inlay_diag failure = INLAY_DIAG_INIT;
    struct frame frame = { .parent = NULL };
    struct machine machine = { .line = 1, .diag = &failure, .frame = &frame };

    *out_text = NULL;
    if (set_variables(&machine, variables, count))
        (void)run(&machine, tree->statements);
    strbuf_add(&machine.out, "", 1);
    if (machine.out.failed)
        (void)machine_fail(&machine, INLAY_OUT_OF_MEMORY, "out of memory for the text", "", 0);
    free_memory(machine.memory, machine.memory_count);
    if (machine.failed)
        strbuf_deinit(&machine.out);
    else
        *out_text = machine.out.data;
    return failure.code == INLAY_OK ? INLAY_OK : inlay_fail(diag, failure.code, "%s", failure.text);
}
