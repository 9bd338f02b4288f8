/* plan/program/constants.c - aligned constants for providers: in the file if aligned there, otherwise copied once. */
#include "base/memory.h"
#include "plan/program.h"
#include <stdlib.h>
#include <string.h>

/* Registers a heap block to be freed with the program. */
static bool register_block(struct program *program, void *block)
{
    if (!LIST_GROW(program->constants.owned, program->constants.owned_count))
        return false;
    program->constants.owned[program->constants.owned_count++] = block;
    return true;
}

/* Copies in pieces, so that original and copy are never both resident completely. */
static void copy_constant(const struct program *program, const inlay_value_info *value, char *to)
{
    enum { PIECE = 4 << 20 };

    for (uint64_t at = 0; at < value->data_bytes; at += PIECE) {
        size_t bytes = value->data_bytes - at < PIECE ? (size_t)(value->data_bytes - at) : PIECE;
        const char *from = (const char *)value->data + at;

        memcpy(to + at, from, bytes);
        graph_blob_release_pages(program->model, from, bytes);
    }
    program_release_pages(program, value); /* also the pages that two pieces share */
}

void program_release_pages(const struct program *program, const inlay_value_info *value)
{
    uint64_t at;

    graph_blob_release_pages(program->model, value->data, (size_t)value->data_bytes);
    if (program->env->memory.held_bytes != NULL && program->env->stream == NULL &&
        graph_blob_file(program->model, value->data, (size_t)value->data_bytes, &at) != NULL)
        (void)__atomic_sub_fetch(program->env->memory.held_bytes, value->data_bytes, __ATOMIC_RELAXED);
}

/* A copy of a constant, aligned to 64 bytes or more; large ones are cached between sessions. NULL: out of memory. */
static void *aligned_copy(struct program *program, const inlay_value_info *value, uint32_t alignment)
{
    enum { LARGE = 1 << 16, PACK_ALIGN = 64 };
    const uint64_t key[] = { 0, value->content_hash };
    uint32_t known = 0;
    void *copy = NULL;

    if (alignment <= PACK_ALIGN && value->data_bytes >= LARGE && value->content_hash != 0 &&
        value->dtype != INLAY_STRING &&
        packs_take(program->packs, NULL, key, sizeof key, value->data_bytes, &copy, &known) == INLAY_OK) {
        if (known == 0) {
            copy_constant(program, value, copy);
            if (graph_files_check(program->model, NULL) == INLAY_OK) /* the key is that of the earlier bytes */
                packs_keep(program->packs, copy);
        }
        return copy;
    }
    if (posix_memalign(&copy, alignment < 64 ? 64 : alignment, value->data_bytes > 0 ? value->data_bytes : 1) != 0)
        return NULL;
    if (!register_block(program, copy)) {
        free(copy);
        return NULL;
    }
    copy_constant(program, value, copy);
    return copy;
}

const void *program_align_constant(struct program *program, uint32_t value, uint32_t alignment)
{
    const inlay_value_info *info;
    const void *found;

    if (value >= program->graph->value_count || alignment == 0 || alignment > 4096 ||
        (alignment & (alignment - 1)) != 0)
        return NULL;
    info = &program->graph->values[value].info;
    if (info->data == NULL)
        return NULL;
    if ((uintptr_t)info->data % alignment == 0)
        return info->data;
    pthread_mutex_lock(&program->constants.lock);
    if (program->constants.aligned[value] == NULL || (uintptr_t)program->constants.aligned[value] % alignment != 0) {
        const void *copy = aligned_copy(program, info, alignment);

        if (copy == NULL) {
            pthread_mutex_unlock(&program->constants.lock);
            return NULL;
        }
        program->constants.aligned[value] = copy;
    }
    found = program->constants.aligned[value];
    pthread_mutex_unlock(&program->constants.lock);
    return found;
}

const void *program_constant(struct program *program, uint32_t value)
{
    return program_align_constant(program, value, 16);
}
