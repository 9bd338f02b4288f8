/* Constants as providers want them: in the file where they are aligned, else copied once. */
#include "base/memory.h"
#include "plan/program.h"
#include <stdlib.h>
#include <string.h>

/* Keeps a heap block until the program goes. */
static bool own(struct program *p, void *block)
{
    if (!LIST_GROW(p->constants.owned, p->constants.owned_count))
        return false;
    p->constants.owned[p->constants.owned_count++] = block;
    return true;
}

/* Piece by piece, so that original and copy are never both in memory. */
static void copy_constant(const struct program *p, const inlay_value_info *v, char *to)
{
    enum { PIECE = 4 << 20 };

    for (uint64_t at = 0; at < v->data_bytes; at += PIECE) {
        size_t bytes = v->data_bytes - at < PIECE ? (size_t)(v->data_bytes - at) : PIECE;
        const char *from = (const char *)v->data + at;

        memcpy(to + at, from, bytes);
        graph_blob_forget(p->model, from, bytes);
    }
    program_forget(p, v); /* pages between pieces */
}

void program_forget(const struct program *p, const inlay_value_info *v)
{
    uint64_t at;

    graph_blob_forget(p->model, v->data, (size_t)v->data_bytes);
    if (p->env->held_bytes != NULL && graph_blob_file(p->model, v->data, (size_t)v->data_bytes, &at) != NULL)
        (void)__atomic_sub_fetch(p->env->held_bytes, v->data_bytes, __ATOMIC_RELAXED);
}

/* A copy of a constant in memory that starts at a multiple of 64 or more: kept between sessions where it is large.
 * NULL: no memory. */
static void *aligned_copy(struct program *p, const inlay_value_info *v, uint32_t alignment)
{
    enum { LARGE = 1 << 16, PACK_ALIGN = 64 };
    const uint64_t key[] = { 0, v->content_hash };
    uint32_t known = 0;
    void *copy = NULL;

    if (alignment <= PACK_ALIGN && v->data_bytes >= LARGE && v->content_hash != 0 && v->dtype != INLAY_STRING &&
        packs_take(p->packs, NULL, key, sizeof key, v->data_bytes, &copy, &known) == INLAY_OK) {
        if (known == 0) {
            copy_constant(p, v, copy);
            packs_keep(p->packs, copy);
        }
        return copy;
    }
    if (posix_memalign(&copy, alignment < 64 ? 64 : alignment, v->data_bytes > 0 ? v->data_bytes : 1) != 0)
        return NULL;
    if (!own(p, copy)) {
        free(copy);
        return NULL;
    }
    copy_constant(p, v, copy);
    return copy;
}

const void *program_align_constant(struct program *p, uint32_t value, uint32_t alignment)
{
    const inlay_value_info *v;
    const void *found;

    if (value >= p->graph->value_count || alignment == 0 || alignment > 4096 || (alignment & (alignment - 1)) != 0)
        return NULL;
    v = &p->graph->values[value].info;
    if (v->data == NULL)
        return NULL;
    if ((uintptr_t)v->data % alignment == 0)
        return v->data;
    pthread_mutex_lock(&p->constants.lock);
    if (p->constants.aligned[value] == NULL || (uintptr_t)p->constants.aligned[value] % alignment != 0) {
        const void *copy = aligned_copy(p, v, alignment);

        if (copy == NULL) {
            pthread_mutex_unlock(&p->constants.lock);
            return NULL;
        }
        p->constants.aligned[value] = copy;
    }
    found = p->constants.aligned[value];
    pthread_mutex_unlock(&p->constants.lock);
    return found;
}

const void *program_constant(struct program *p, uint32_t value)
{
    return program_align_constant(p, value, 16);
}
