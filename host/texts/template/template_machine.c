/* The machine of templates: its failures, memory, variables and arguments. */
#include "texts/template/template_internal.h"
#include <stdlib.h>

bool machine_fail(struct machine *machine, inlay_status status, const char *what, const char *detail, size_t bytes)
{
    char shown[161];

    if (machine->failed)
        return false;
    machine->failed = true;
    bytes = bytes < sizeof shown - 1 ? bytes : sizeof shown - 1;
    for (size_t i = 0; i < bytes; i++)
        shown[i] = (char)(detail[i] >= 0 && (detail[i] < ' ' || detail[i] == 127) ? ' ' : detail[i]);
    shown[bytes] = '\0';
    if (what == NULL)
        (void)inlay_fail(machine->diag, status, "%s", shown);
    else
        (void)inlay_fail(machine->diag, status, "line %u: %s%s%s%s%s", machine->line,
                         status == INLAY_UNSUPPORTED ? "not supported: " : "", what, bytes > 0 ? " '" : "", shown,
                         bytes > 0 ? "'" : "");
    return false;
}

void *machine_memory(struct machine *machine, size_t bytes)
{
    enum { BLOCK = 1 << 14 };
    size_t rounded = (bytes / 16 + 1) * 16, block = rounded > BLOCK ? rounded : BLOCK;
    void *memory;

    if (bytes > TEMPLATE_MEMORY || machine->memory_bytes > TEMPLATE_MEMORY) {
        (void)machine_fail(machine, INLAY_LIMIT_EXCEEDED, "its values take too much memory", "", 0);
        return NULL;
    }
    if (rounded > machine->left) {
        memory = LIST_GROW(machine->memory, machine->memory_count) ? calloc(1, block) : NULL;
        if (memory == NULL) {
            (void)machine_fail(machine, INLAY_OUT_OF_MEMORY, "out of memory for the text", "", 0);
            return NULL;
        }
        machine->memory[machine->memory_count++] = memory;
        machine->memory_bytes += block;
        machine->next = memory;
        machine->left = block;
    }
    memory = machine->next;
    machine->next += rounded;
    machine->left -= rounded;
    return memory;
}

bool machine_enter(struct machine *machine)
{
    if (machine->failed)
        return false;
    if (machine->nested == TEMPLATE_NESTED)
        return machine_fail(machine, INLAY_LIMIT_EXCEEDED, "it is nested too deeply", "", 0);
    if (machine->steps++ > TEMPLATE_STEPS)
        return machine_fail(machine, INLAY_LIMIT_EXCEEDED, "it takes more than 4000000 steps", "", 0);
    machine->nested++;
    return true;
}

bool machine_count(struct machine *machine, size_t count)
{
    enum { ELEMENTS = 16 }; /* in the time of a step */
    size_t steps = 1 + count / ELEMENTS;

    if (machine->failed)
        return false;
    if (steps > TEMPLATE_STEPS || machine->steps + steps > TEMPLATE_STEPS)
        return machine_fail(machine, INLAY_LIMIT_EXCEEDED, "it takes more than 4000000 steps", "", 0);
    machine->steps += (uint32_t)steps;
    return true;
}

void machine_leave(struct machine *machine)
{
    machine->nested--;
}

bool machine_copy(struct machine *machine, const char *text, size_t bytes, struct value *out)
{
    char *copy = machine_memory(machine, bytes + 1);

    if (copy == NULL)
        return false;
    if (bytes > 0)
        memcpy(copy, text, bytes);
    *out = text_value(copy, bytes);
    return true;
}

bool machine_take(struct machine *machine, struct strbuf *from, struct value *out)
{
    bool good = !from->failed || machine_fail(machine, INLAY_OUT_OF_MEMORY, "out of memory for the text", "", 0);

    good = good && !machine->failed && machine_copy(machine, from->data, from->size, out);
    strbuf_deinit(from);
    *from = (struct strbuf){ 0 };
    return good;
}

static bool is_same_text(const struct value *left, const struct value *right)
{
    return left->count == right->count && memcmp(left->text, right->text, left->count) == 0;
}

bool machine_set(struct machine *machine, struct value name, struct value value)
{
    struct frame *frame = machine->frame;

    for (size_t i = 0; i < frame->count; i++)
        if (is_same_text(&frame->variables[i].name, &name)) {
            frame->variables[i].value = value;
            return true;
        }
    if (frame->count == frame->room) {
        size_t room = frame->room > 0 ? 2 * frame->room : 4;
        struct variable *more = machine_memory(machine, room * sizeof *more);

        if (more == NULL)
            return false;
        if (frame->count > 0)
            memcpy(more, frame->variables, frame->count * sizeof *more);
        frame->variables = more;
        frame->room = room;
    }
    frame->variables[frame->count++] = (struct variable){ name, value };
    return true;
}

struct value machine_find(const struct machine *machine, struct value name)
{
    for (const struct frame *frame = machine->frame; frame != NULL; frame = frame->parent)
        for (size_t i = 0; i < frame->count; i++)
            if (is_same_text(&frame->variables[i].name, &name))
                return frame->variables[i].value;
    return (struct value){ .kind = VALUE_UNDEFINED };
}

const struct value *argument_get(const struct arguments *arguments, uint32_t position, const char *name)
{
    uint32_t place = 0;

    for (uint32_t i = 0; i < arguments->count; i++) {
        if (arguments->names[i].kind == VALUE_UNDEFINED && place++ == position)
            return &arguments->values[i];
        if (name != NULL && value_is(&arguments->names[i], name))
            return &arguments->values[i];
    }
    return NULL;
}

int64_t argument_number(const struct arguments *arguments, uint32_t position, const char *name, int64_t otherwise)
{
    const struct value *given = argument_get(arguments, position, name);

    return given != NULL && value_is_whole(given) ? given->number : otherwise;
}
