/* Interpreter of chat templates: its failures, memory, variables and words. */
#include "serve/chat/chat_internal.h"
#include <stdlib.h>

bool machine_fail(struct machine *machine, inlay_status status, const char *what, const char *detail, size_t bytes)
{
    unsigned line = 1;

    if (machine->failed)
        return false;
    machine->failed = true;
    for (const char *at = machine->chat->form; at < machine->at; at++)
        line += *at == '\n';
    if (bytes > 80)
        bytes = 80;
    if (what == NULL)
        (void)inlay_fail(machine->diag, status, "the model's chat template refuses the messages: %.*s", (int)bytes,
                         detail);
    else
        (void)inlay_fail(machine->diag, status, "the model's chat template, line %u: %s%s%s%.*s%s", line,
                         status == INLAY_UNSUPPORTED ? "not supported: " : "", what, bytes > 0 ? " '" : "", (int)bytes,
                         detail, bytes > 0 ? "'" : "");
    return false;
}

void *machine_memory(struct machine *machine, size_t bytes)
{
    void *memory = NULL;

    if (machine->memory_bytes + bytes <= 2u * CHAT_BYTES && LIST_GROW(machine->memory, machine->memory_count))
        memory = malloc(bytes > 0 ? bytes : 1);
    if (memory == NULL) {
        (void)machine_fail(machine, INLAY_OUT_OF_MEMORY, "out of memory for the text", "", 0);
        return NULL;
    }
    machine->memory[machine->memory_count++] = memory;
    machine->memory_bytes += bytes + 16;
    return memory;
}

bool machine_set(struct machine *machine, const char *name, size_t bytes, int namespace_id, struct value value)
{
    uint32_t from = namespace_id == 0 ? machine->scope : 0;

    if (machine->quiet > 0)
        return true;
    for (uint32_t i = from; i < machine->variable_count; i++) {
        struct variable *variable = &machine->variables[i];

        if (variable->namespace_id == namespace_id && variable->bytes == bytes &&
            memcmp(variable->name, name, bytes) == 0) {
            variable->value = value;
            return true;
        }
    }
    if (machine->variable_count == CHAT_VARIABLES)
        return machine_fail(machine, INLAY_UNSUPPORTED, "more than 64 variables:", name, bytes);
    machine->variables[machine->variable_count++] = (struct variable){ name, bytes, namespace_id, value };
    return true;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

void machine_spaces(struct machine *machine)
{
    while (machine->at < machine->end && machine_is_white(*machine->at))
        machine->at++;
}

static bool is_next(const struct machine *machine, const char *sign)
{
    size_t bytes = strlen(sign);

    return (size_t)(machine->end - machine->at) >= bytes && memcmp(machine->at, sign, bytes) == 0;
}

bool machine_sign(struct machine *machine, const char *sign)
{
    machine_spaces(machine);
    if (!is_next(machine, sign))
        return false;
    machine->at += strlen(sign);
    return true;
}

bool machine_name(struct machine *machine, const char **out, size_t *out_bytes)
{
    const char *from;

    machine_spaces(machine);
    from = machine->at;
    if (machine->at == machine->end || !is_letter(*machine->at))
        return false;
    while (machine->at < machine->end && (is_letter(*machine->at) || (*machine->at >= '0' && *machine->at <= '9')))
        machine->at++;
    *out = from;
    *out_bytes = (size_t)(machine->at - from);
    return true;
}

bool machine_word(struct machine *machine, const char *word)
{
    const char *from = machine->at, *name;
    size_t bytes;

    if (machine_name(machine, &name, &bytes) && bytes == strlen(word) && memcmp(name, word, bytes) == 0)
        return true;
    machine->at = from;
    return false;
}

bool machine_at_end(struct machine *machine)
{
    machine_spaces(machine);
    return is_next(machine, "%}") || is_next(machine, "-%}") || is_next(machine, "}}") || is_next(machine, "-}}");
}
