#include "texts/decode/hidden.h"
#include "base/memory.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_KEPT = 1024 /* tokens of a text */ };

/* Whether the outputs have a state of each token of the run. */
static bool is_complete(const text_head *head, const hidden_run *run)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < head->source_count; i++) {
        const decode_output *output = &run->outputs[i];

        if (output->rank != 3 || output->dims[0] != run->rows || (size_t)output->dims[1] != run->tokens ||
            output->dtype != head->dtype)
            return false;
        bytes += (size_t)output->dims[2] * head->number_bytes;
    }
    return bytes == head->hidden_bytes;
}

bool hidden_add(hidden_states *hidden, const text_head *head, const hidden_run *run, size_t first, size_t count)
{
    const size_t skipped = count > MOST_KEPT ? count - MOST_KEPT : 0;

    INLAY_CHECK(count <= run->tokens && run->row < run->rows);
    first += skipped;
    count -= skipped;
    if (hidden->first + hidden->count != first) {
        hidden->first = first;
        hidden->count = 0;
    }
    if (hidden->count + count > MOST_KEPT) /* half of them, so that a longer text does not move them every time */
        hidden_drop(hidden, head, first + count - (count > MOST_KEPT / 2 ? count : MOST_KEPT / 2));
    if (!is_complete(head, run) || !list_reserve(&hidden->rows, hidden->count, count, head->hidden_bytes)) {
        hidden->count = 0;
        return false;
    }
    for (size_t t = 0; t < count; t++) {
        unsigned char *to = hidden->rows + (hidden->count + t) * head->hidden_bytes;

        for (uint32_t i = 0; i < head->source_count; i++) {
            const size_t bytes = (size_t)run->outputs[i].dims[2] * head->number_bytes;

            memcpy(to, (const unsigned char *)run->outputs[i].data + (run->row * run->tokens + skipped + t) * bytes,
                   bytes);
            to += bytes;
        }
    }
    hidden->count += count;
    return true;
}

void hidden_drop(hidden_states *hidden, const text_head *head, size_t first)
{
    const size_t most = first > hidden->first ? first - hidden->first : 0,
                 count = most < hidden->count ? most : hidden->count;

    if (count == 0)
        return;
    hidden->first += count;
    hidden->count -= count;
    memmove(hidden->rows, hidden->rows + count * head->hidden_bytes, hidden->count * head->hidden_bytes);
}

void hidden_deinit(hidden_states *hidden)
{
    free(hidden->rows);
    *hidden = (hidden_states){ .count = 0 };
}
