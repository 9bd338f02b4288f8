#include "serve/changes.h"
#include "serve/folder.h"
#include "serve/log.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct seen_model {
    char *name;
    uint64_t acted; /* upon this state of its files; 0 = never */
    uint64_t seen;  /* at the last look; 0 = not there */
} seen_model;

void changes_deinit(struct changes *c)
{
    for (uint32_t i = 0; i < c->count; i++)
        free(c->models[i].name);
    free(c->models);
    *c = (struct changes){ .models = NULL };
}

static uint64_t mix(uint64_t sum, uint64_t value)
{
    sum = (sum ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return sum ^ sum >> 29;
}

static uint64_t mix_file(uint64_t sum, const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return mix(sum, 1);
    sum = mix(sum, (uint64_t)st.st_ino);
    sum = mix(sum, (uint64_t)st.st_size);
    sum = mix(sum, (uint64_t)st.st_mtim.tv_sec);
    return mix(sum, (uint64_t)st.st_mtim.tv_nsec);
}

/* The state of a model's files as a number, never 0. */
static uint64_t state_of(const found_model *m)
{
    char path[4200];
    uint64_t sum = 0;

    if (!m->is_folder)
        return mix_file(sum, m->path) | 1;
    (void)snprintf(path, sizeof path, "%s/config.yaml", m->path);
    sum = mix_file(sum, path);
    for (uint32_t i = 0; i < m->version_count; i++) {
        (void)snprintf(path, sizeof path, "%s/%llu/model.onnx", m->path, (unsigned long long)m->versions[i]);
        sum = mix_file(mix(sum, m->versions[i]), path);
    }
    return sum | 1;
}

/* The entry of that name, made where there is none; NULL: no memory. */
static seen_model *entry_of(struct changes *c, const char *name)
{
    seen_model *more;

    for (uint32_t i = 0; i < c->count; i++)
        if (strcmp(c->models[i].name, name) == 0)
            return &c->models[i];
    if (!LIST_GROW(c->models, c->count))
        return NULL;
    more = c->models;
    more[c->count] = (seen_model){ .name = strdup(name) };
    return more[c->count].name != NULL ? &more[c->count++] : NULL;
}

void changes_note(struct changes *c, const char *path)
{
    struct folder f;

    if (folder_read(path, &f, NULL) != INLAY_OK)
        return;
    for (uint32_t i = 0; i < f.count; i++) {
        seen_model *m = entry_of(c, f.models[i].name);

        if (m != NULL)
            m->acted = m->seen = state_of(&f.models[i]);
    }
    folder_deinit(&f);
}

static void act(struct repository *r, seen_model *m)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = m->seen != 0 ? repository_load(r, m->name, &diag) : repository_unload(r, m->name, &diag);

    m->acted = m->seen;
    if (status != INLAY_OK)
        log_line(LOG_ERROR_LINE, "%s", diag.text);
    else
        log_line(LOG_INFO_LINE, "model '%s' %s", m->name, m->seen != 0 ? "loaded anew" : "unloaded");
}

static const found_model *find(const struct folder *f, const char *name)
{
    for (uint32_t i = 0; i < f->count; i++)
        if (strcmp(f->models[i].name, name) == 0)
            return &f->models[i];
    return NULL;
}

void changes_look(struct changes *c, struct repository *r, const char *path)
{
    struct folder f;

    if (folder_read(path, &f, NULL) != INLAY_OK)
        return; /* a folder that is away for a moment unloads nothing */
    for (uint32_t i = 0; i < f.count; i++)
        (void)entry_of(c, f.models[i].name);
    for (uint32_t i = 0; i < c->count; i++) {
        seen_model *m = &c->models[i];
        const found_model *found = find(&f, m->name);
        uint64_t state = found != NULL ? state_of(found) : 0;
        bool settled = state == m->seen;

        m->seen = state;
        if (settled && m->seen != m->acted)
            act(r, m);
    }
    folder_deinit(&f);
}
