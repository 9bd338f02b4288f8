#include "texts/chat/form_cache.h"
#include "base/hash.h"
#include <pthread.h>
#include <string.h>

enum { MOST_FORMS = 128 };
static const uint64_t MOST_BYTES = UINT64_C(64) << 20;

typedef struct kept_form {
    uint64_t hash, used, bytes;
    struct strbuf key, warnings;
    uint32_t warning_count;
    struct grammar *grammar; /* NULL: the place is free */
} kept_form;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kept_form forms[MOST_FORMS];
static uint64_t uses;
static form_figures figures;

static int add_to_key(const char *text, size_t bytes, void *user)
{
    strbuf_add(user, text, bytes);
    return ((struct strbuf *)user)->failed ? -1 : 0;
}

void form_cache_key(struct strbuf *key, const json_t *value)
{
    key->failed |= value != NULL && json_dump_callback(value, add_to_key, key, JSON_COMPACT | JSON_ENCODE_ANY) != 0;
}

static void drop(kept_form *form)
{
    figures.bytes -= form->bytes;
    grammar_destroy(form->grammar);
    strbuf_deinit(&form->key);
    strbuf_deinit(&form->warnings);
    *form = (kept_form){ .grammar = NULL };
}

static kept_form *find(const struct strbuf *key, uint64_t hash)
{
    for (size_t i = 0; i < MOST_FORMS; i++)
        if (forms[i].grammar != NULL && forms[i].hash == hash && forms[i].key.size == key->size &&
            memcmp(forms[i].key.data, key->data, key->size) == 0)
            return &forms[i];
    return NULL;
}

struct grammar *form_cache_find(const struct strbuf *key, struct strbuf *warnings, uint32_t *warning_count)
{
    const uint64_t hash = key->failed ? 0 : hash_bytes(key->data, key->size, 0);
    struct grammar *copy = NULL;
    kept_form *form;

    (void)pthread_mutex_lock(&lock);
    form = key->failed ? NULL : find(key, hash);
    if (form != NULL) {
        form->used = ++uses;
        copy = grammar_copy(form->grammar);
    }
    if (copy != NULL && warnings != NULL) {
        strbuf_add(warnings, form->warnings.data, form->warnings.size);
        *warning_count = form->warning_count;
    }
    figures.found += copy != NULL;
    figures.built += copy == NULL;
    (void)pthread_mutex_unlock(&lock);
    return copy;
}

/* Makes room for a form of `bytes` bytes. */
static kept_form *make_room(uint64_t bytes)
{
    for (;;) {
        kept_form *oldest = NULL, *empty = NULL;

        for (size_t i = 0; i < MOST_FORMS; i++)
            if (forms[i].grammar == NULL)
                empty = &forms[i];
            else if (oldest == NULL || forms[i].used < oldest->used)
                oldest = &forms[i];
        if (empty != NULL && figures.bytes + bytes <= MOST_BYTES)
            return empty;
        drop(oldest); /* there is one: bytes are at most a quarter of MOST_BYTES */
    }
}

void form_cache_add(const struct strbuf *key, const struct grammar *grammar, const struct strbuf *warnings,
                    uint32_t warning_count)
{
    const uint64_t bytes = key->size + grammar_bytes(grammar) + (warnings != NULL ? warnings->size : 0);
    kept_form made = { .bytes = bytes, .warning_count = warning_count };

    if (key->failed || bytes > MOST_BYTES / 4)
        return;
    made.hash = hash_bytes(key->data, key->size, 0);
    strbuf_add(&made.key, key->data, key->size);
    if (warnings != NULL)
        strbuf_add(&made.warnings, warnings->data, warnings->size);
    made.grammar = grammar_copy(grammar);
    (void)pthread_mutex_lock(&lock);
    if (made.grammar != NULL && !made.key.failed && !made.warnings.failed && find(key, made.hash) == NULL) {
        kept_form *place = make_room(bytes);

        made.used = ++uses;
        *place = made;
        figures.bytes += bytes;
        made = (kept_form){ .grammar = NULL };
    }
    (void)pthread_mutex_unlock(&lock);
    grammar_destroy(made.grammar);
    strbuf_deinit(&made.key);
    strbuf_deinit(&made.warnings);
}

form_figures form_cache_figures(void)
{
    form_figures now;

    (void)pthread_mutex_lock(&lock);
    now = figures;
    (void)pthread_mutex_unlock(&lock);
    return now;
}
