/* plan/program/declined.c - declined offers, and the shapes at which they were declined. */
#include "plan/program/declined.h"
#include "base/memory.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_SHAPES = 256 };

static bool has_node(const struct program *program, const partition_offer *offer, const char *name)
{
    for (uint32_t k = 0; k < offer->node_count; k++)
        if (strcmp(program->graph->nodes[offer->nodes[k]]->info.name.data, name) == 0)
            return true;
    return false;
}

void declined_mark(const struct program *program, uint32_t step, const inlay_diag *why, uint8_t *offers)
{
    const partition_region *region = &program->parts.regions[step];
    bool found = false;

    INLAY_CHECK(step < program->parts.region_count);
    for (uint32_t i = 0; why->node[0] != '\0' && i < region->offer_count; i++)
        if (has_node(program, &program->parts.offers[region->offers[i]], why->node))
            offers[region->offers[i]] = found = true;
    for (uint32_t i = 0; !found && i < region->offer_count; i++)
        offers[region->offers[i]] = 1;
}

inlay_status declined_no_memory(const struct program *program, inlay_diag *diag)
{
    return no_memory(diag, "to assign graph '%s' again", program->graph->name);
}

static void free_shapes(declined_shapes *shapes)
{
    arena_deinit(&shapes->key.arena);
    arena_deinit(&shapes->arena);
    free(shapes);
}

/* Adds an entry; NULL inputs: for all shapes. */
static declined_shapes *add_entry(struct program *program, const plan_input *inputs, uint32_t count,
                                  const uint8_t *offers, const char *text)
{
    declined_shapes *shapes = calloc(1, sizeof *shapes), **link = &program->fallback.shapes;
    uint32_t kept = 0;

    if (shapes == NULL)
        return NULL;
    INLAY_CHECK(program->parts.offer_count > 0);
    shapes->all = inputs == NULL;
    shapes->offers = arena_copy(&shapes->arena, offers, (size_t)program->parts.offer_count);
    shapes->text = arena_string(&shapes->arena, text);
    if (shapes->offers == NULL || shapes->text == NULL || !plan_set_key(&shapes->key, inputs, count)) {
        free_shapes(shapes);
        return NULL;
    }
    shapes->next = program->fallback.shapes;
    __atomic_store_n(&program->fallback.shapes, shapes, __ATOMIC_RELEASE);
    for (; *link != NULL; link = &(*link)->next) {
        if ((*link)->all || kept++ < MAX_SHAPES)
            continue;
        free_shapes(*link); /* the oldest; if it recurs, specialize is queried again */
        *link = NULL;
        break;
    }
    return shapes;
}

inlay_status declined_add_shapes(struct program *program, const plan_input *inputs, uint32_t count,
                                 const uint8_t *offers, const char *text, inlay_diag *diag)
{
    return add_entry(program, inputs, count, offers, text) != NULL ? INLAY_OK : declined_no_memory(program, diag);
}

inlay_status declined_add_all(struct program *program, const uint8_t *offers, const char *text, inlay_diag *diag)
{
    declined_shapes *added;

    (void)pthread_mutex_lock(&program->kept.lock);
    added = add_entry(program, NULL, 0, offers, text);
    for (const declined_shapes *before = added != NULL ? added->next : NULL; before != NULL; before = before->next)
        for (uint32_t i = 0; before->all && !before->impossible && i < program->parts.offer_count; i++)
            added->offers[i] |= before->offers[i];
    (void)pthread_mutex_unlock(&program->kept.lock);
    return added != NULL ? INLAY_OK : declined_no_memory(program, diag);
}

declined_shapes *declined_find(const struct program *program, const plan_input *inputs, uint32_t count)
{
    declined_shapes *found = NULL;

    for (declined_shapes *entry = program->fallback.shapes; entry != NULL; entry = entry->next) {
        if (entry->all && !entry->impossible)
            return entry;
        if (found == NULL && !entry->all && plan_fits(&entry->key, inputs, count))
            found = entry;
    }
    return found;
}

/* "[2,3] [7]", truncated if necessary. */
static void format_shapes(const struct plan *key, char *text, size_t bytes)
{
    const int64_t *next = key->key, *end = next + key->key_count;
    size_t used = 0;

    text[0] = '\0';
    while (next < end && used < bytes) {
        uint32_t rank = (uint32_t)*next;

        next += 2;
        used += (size_t)snprintf(text + used, bytes - used, "%s[", used > 0 ? " " : "");
        for (uint32_t d = 0; rank != INLAY_RANK_UNKNOWN && d < rank && used < bytes; d++)
            used += (size_t)snprintf(text + used, bytes - used, "%s%lld", d > 0 ? "," : "", (long long)*next++);
        if (used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, rank == INLAY_RANK_UNKNOWN ? "...]" : "]");
    }
}

uint32_t declined_list(struct program *program, uint32_t most,
                       void (*say)(void *ctx, const char *shapes, const char *text), void *ctx)
{
    uint32_t count = 0;

    (void)pthread_mutex_lock(&program->kept.lock);
    for (const declined_shapes *entry = program->fallback.shapes; entry != NULL; entry = entry->next, count++) {
        char shapes[160];

        if (count >= most)
            continue;
        if (entry->all)
            (void)snprintf(shapes, sizeof shapes, "all shapes");
        else
            format_shapes(&entry->key, shapes, sizeof shapes);
        say(ctx, shapes, entry->text);
    }
    (void)pthread_mutex_unlock(&program->kept.lock);
    return count;
}

void declined_free(struct program *program)
{
    while (program->fallback.shapes != NULL) {
        declined_shapes *next = program->fallback.shapes->next;

        free_shapes(program->fallback.shapes);
        program->fallback.shapes = next;
    }
}
