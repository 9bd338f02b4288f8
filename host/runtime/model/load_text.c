/* model/load_text.c - texts and uninterpreted fields of a file, and messages with a location in the file. */
#include "model/load.h"
#include "base/wire.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

inlay_status load_no_memory(const struct loader *loader, const struct graph *graph)
{
    return graph_fail(graph, NULL, NULL, INLAY_OUT_OF_MEMORY, loader->diag, "out of memory while loading");
}

static void free_nothing(void *ctx, void *pointer)
{
    (void)ctx;
    (void)pointer;
}

ProtobufCMessage *load_unpack(const ProtobufCMessageDescriptor *kind, const prescan_result *scanned,
                              struct arena *arena)
{
    ProtobufCAllocator allocator = { .alloc = arena_alloc_callback, .free = free_nothing, .allocator_data = arena };

    return protobuf_c_message_unpack(kind, &allocator, scanned->count, scanned->bytes);
}

void load_prefix(inlay_diag *diag, const char *place)
{
    char text[sizeof diag->text];
    size_t used, room;

    if (diag == NULL || diag->struct_size < sizeof *diag)
        return;
    memcpy(text, diag->text, sizeof text);
    (void)snprintf(diag->text, sizeof diag->text, "%.200s: ", place);
    used = strlen(diag->text);
    room = sizeof diag->text - used - 1;
    (void)strncat(diag->text + used, text, room);
    for (char *at = diag->text; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = '?';
}

const char *load_text(const struct loader *loader, const char *text)
{
    return text == NULL || text[0] == '\0' ? "" : arena_string(&loader->model->arena, text);
}

inlay_status load_extra(const struct loader *loader, const ProtobufCMessage *message, uint32_t without, inlay_str *out)
{
    size_t bytes = 0;
    uint8_t *at;

    *out = (inlay_str){ 0 };
    for (unsigned i = 0; i < message->n_unknown_fields; i++)
        bytes += message->unknown_fields[i].tag != without ? 10 + message->unknown_fields[i].len : 0;
    if (bytes == 0)
        return INLAY_OK;
    at = arena_alloc(&loader->model->arena, bytes);
    if (at == NULL)
        return load_no_memory(loader, NULL);
    out->data = (const char *)at;
    for (unsigned i = 0; i < message->n_unknown_fields; i++) {
        const ProtobufCMessageUnknownField *field = &message->unknown_fields[i];

        if (field->tag == without)
            continue;
        at += wire_encode(at, (uint64_t)field->tag << 3 | (uint64_t)field->wire_type);
        memcpy(at, field->data, field->len); /* data includes the length of length-delimited fields */
        at += field->len;
    }
    out->bytes = (uint64_t)((const char *)at - out->data);
    INLAY_CHECK(out->bytes <= bytes);
    return INLAY_OK;
}

inlay_status load_fail_tensor(struct loader *loader, const struct graph *graph, const char *name, inlay_status status)
{
    char place[240];

    (void)snprintf(place, sizeof place, "graph '%.64s', tensor '%.120s'", graph->name, name);
    load_prefix(loader->diag, place);
    if (loader->diag != NULL && loader->diag->struct_size >= sizeof *loader->diag)
        (void)snprintf(loader->diag->tensor, sizeof loader->diag->tensor, "%s", name);
    return status;
}
