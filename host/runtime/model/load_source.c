/* model/load_source.c - where a node comes from. PyTorch's exporter stores a Python traceback and the names of the
 * surrounding modules in metadata_props (pkg.torch.onnx.stack_trace, pkg.torch.onnx.name_scopes). */
#include "model/load.h"
#include <stdio.h>
#include <string.h>

enum { SOURCE_BYTES = 200 };

/* Writes "FILE:LINE" of the innermost call of a traceback, the last one, which reads
 * `File "/a/b/modeling.py", line 12, in forward`. */
static void write_line(const char *trace, char *text, size_t bytes)
{
    static const char begin[] = "File \"", middle[] = "\", line ";
    const char *file = NULL, *end, *name;

    for (const char *at = trace; (at = strstr(at, begin)) != NULL; at++)
        file = at + sizeof begin - 1;
    end = file == NULL ? NULL : strstr(file, middle);
    if (end == NULL)
        return;
    name = end;
    while (name > file && name[-1] != '/' && name[-1] != '\\')
        name--;
    (void)snprintf(text, bytes, "%.*s:%.*s", (int)(end - name), name,
                   (int)strspn(end + sizeof middle - 1, "0123456789"), end + sizeof middle - 1);
}

/* Writes the innermost module of a list as Python prints it: ['', 'model', 'model.layers.0', 'add_3'], where the last
 * name is that of the call. */
static void write_module(const char *scopes, char *text, size_t bytes)
{
    const char *module = NULL, *last = NULL, *at = scopes;
    size_t module_bytes = 0, last_bytes = 0;

    while ((at = strpbrk(at, "'\"")) != NULL) {
        const char *end = strchr(at + 1, *at);

        if (end == NULL)
            return;
        module = last;
        module_bytes = last_bytes;
        last = at + 1;
        last_bytes = (size_t)(end - last);
        at = end + 1;
    }
    if (module_bytes > 0)
        (void)snprintf(text, bytes, "%.*s", (int)(module_bytes < bytes ? module_bytes : bytes - 1), module);
}

/* Unpacks a StringStringEntryProto, which its length precedes. */
static Onnx__Entry *unpack_entry(const ProtobufCMessageUnknownField *field)
{
    size_t prefix = 0;

    while (prefix < field->len && (field->data[prefix] & 0x80) != 0)
        prefix++;
    return prefix + 1 > field->len ? NULL
                                   : onnx__entry__unpack(NULL, field->len - prefix - 1, field->data + prefix + 1);
}

inlay_status load_source(const struct loader *loader, const Onnx__Node *proto, const char **out)
{
    char line[SOURCE_BYTES] = "", module[SOURCE_BYTES] = "", text[2 * SOURCE_BYTES + sizeof ", "];

    *out = NULL;
    for (unsigned i = 0; i < proto->base.n_unknown_fields; i++) {
        const ProtobufCMessageUnknownField *field = &proto->base.unknown_fields[i];
        Onnx__Entry *entry =
            field->tag == NODE_METADATA_PROPS && field->wire_type == PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED
                ? unpack_entry(field)
                : NULL;

        if (entry != NULL && entry->key != NULL && entry->value != NULL) {
            if (strcmp(entry->key, "pkg.torch.onnx.stack_trace") == 0)
                write_line(entry->value, line, sizeof line);
            else if (strcmp(entry->key, "pkg.torch.onnx.name_scopes") == 0)
                write_module(entry->value, module, sizeof module);
        }
        if (entry != NULL)
            onnx__entry__free_unpacked(entry, NULL);
    }
    if (line[0] == '\0' && module[0] == '\0')
        return INLAY_OK;
    (void)snprintf(text, sizeof text, "%s%s%s", line, line[0] != '\0' && module[0] != '\0' ? ", " : "", module);
    *out = load_text(loader, text);
    return *out != NULL ? INLAY_OK : load_no_memory(loader, NULL);
}
