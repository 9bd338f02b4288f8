#include "texts/draft/onnx_file.h"
#include "base/path.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* Whether the whole message can be read. */
static bool is_sound(wire_span message)
{
    wire_field ignored;

    while (wire_next(&message, &ignored))
        continue;
    return message.count == 0;
}

bool onnx_field(wire_span message, uint32_t number, uint32_t index, wire_field *out)
{
    while (wire_next(&message, out))
        if (out->number == number && index-- == 0)
            return true;
    *out = (wire_field){ .number = 0 };
    return false;
}

wire_span onnx_text(wire_span message, uint32_t number, uint32_t index)
{
    wire_field found;

    (void)onnx_field(message, number, index, &found);
    return found.data;
}

bool onnx_same(wire_span a, wire_span b)
{
    return a.count == b.count && (a.count == 0 || memcmp(a.at, b.at, a.count) == 0);
}

bool onnx_named(wire_span graph, uint32_t kind, uint32_t name_field, wire_span name, wire_span *out)
{
    wire_field item;

    while (wire_next(&graph, &item)) {
        if (item.number == kind && onnx_same(onnx_text(item.data, name_field, 0), name)) {
            *out = item.data;
            return true;
        }
    }
    return false;
}

bool onnx_is_domain(wire_span domain, const char *name)
{
    return wire_is(domain, name) || (name[0] == '\0' && wire_is(domain, "ai.onnx"));
}

bool onnx_is_op(wire_span node, const char *op)
{
    const wire_span domain = onnx_text(node, NODE_DOMAIN, 0);
    const char *dot = strrchr(op, '.');
    char expected[40];

    (void)snprintf(expected, sizeof expected, "%.*s", dot != NULL ? (int)(dot - op) : 0, op);
    return onnx_is_domain(domain, expected) && wire_is(onnx_text(node, NODE_OP, 0), dot != NULL ? dot + 1 : op);
}

bool onnx_file_open(const char *path, onnx_file *out)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    wire_field graph;

    *out = (onnx_file){ .path = path, .name = path_name(path) };
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0) {
        if (fd >= 0)
            (void)close(fd);
        return false;
    }
    out->bytes.count = (size_t)st.st_size;
    out->bytes.at = mmap(NULL, out->bytes.count, PROT_READ, MAP_PRIVATE, fd, 0);
    if (out->bytes.at == MAP_FAILED)
        out->bytes = (wire_span){ NULL, 0 };
    else
        out->watch = mapped_file_watch(out->bytes.at, out->bytes.count, fd, &st);
    (void)close(fd);
    if (out->watch == NULL || !is_sound(out->bytes) || !onnx_field(out->bytes, MODEL_GRAPH, 0, &graph))
        return false;
    out->graph = graph.data;
    return is_sound(out->graph);
}

void onnx_file_close(onnx_file *file)
{
    if (file->bytes.at != NULL)
        (void)munmap((void *)(uintptr_t)file->bytes.at, file->bytes.count);
    mapped_file_forget(file->watch);
}

/* The input of a node that is a table with a row for each position; empty: it has none. */
static wire_span positions_of(wire_span node)
{
    static const struct {
        const char *op;
        uint32_t input;
    } tables[] = { { "com.microsoft.GroupQueryAttention", 7 },
                   { "com.microsoft.RotaryEmbedding", 2 },
                   { "RotaryEmbedding", 1 } };

    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (onnx_is_op(node, tables[i].op))
            return onnx_text(node, NODE_INPUT, tables[i].input);
    if (onnx_is_op(node, "Gather") && wire_is(onnx_text(node, NODE_INPUT, 1), "position_ids"))
        return onnx_text(node, NODE_INPUT, 0);
    return (wire_span){ NULL, 0 };
}

uint64_t onnx_file_positions(const char *path)
{
    wire_span rest, last = { NULL, 0 }, weight;
    uint64_t positions = 0;
    wire_field item, rows;
    onnx_file file;

    rest = onnx_file_open(path, &file) ? file.graph : last;
    while (wire_next(&rest, &item)) {
        const wire_span table = item.number == GRAPH_NODE ? positions_of(item.data) : (wire_span){ NULL, 0 };

        if (table.count == 0 || onnx_same(table, last)) /* the layers share one */
            continue;
        last = table;
        if (onnx_named(file.graph, GRAPH_INITIALIZER, TENSOR_NAME, table, &weight) &&
            onnx_field(weight, TENSOR_DIM, 0, &rows) && rows.type == WIRE_VARINT &&
            (positions == 0 || rows.value < positions))
            positions = rows.value;
    }
    if (file.watch == NULL || mapped_file_check(file.watch, NULL) != INLAY_OK)
        positions = 0;
    onnx_file_close(&file);
    return positions;
}
