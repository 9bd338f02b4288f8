/* The description, and that opening does nothing but describe. */
#include "check/loaded.h"
#include "check/process.h"
#include "probe/process_snapshot.h"
#include "plugin/note.h"
#include "plugin/plugin.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KNOWN_HALF 0xffffu /* unknown bits below are refused by hosts, above ignored (plugin.h, Growth) */

static bool is_word(const char *text, const char *more)
{
    if (text == NULL || *text == '\0')
        return false;
    for (; *text != '\0'; text++)
        if (!(*text >= 'a' && *text <= 'z') && !(*text >= '0' && *text <= '9') && strchr(more, *text) == NULL)
            return false;
    return true;
}

static bool is_empty(const char *text)
{
    return text == NULL || *text == '\0';
}

static void check_flags(struct check *c, const char *subject, uint32_t flags, uint32_t known)
{
    uint32_t low = flags & KNOWN_HALF & ~known, high = flags & ~KNOWN_HALF & ~known;

    if (low != 0)
        check_fail(c, "description", subject, "flags that inlay/plugin.h names", "leave the other bits zero",
                   "flags has 0x%x, for which hosts refuse the plugin", low);
    if (high != 0)
        check_warn(c, "description", subject, "flags that inlay/plugin.h names", "leave the other bits zero",
                   "flags has 0x%x, which hosts ignore", high);
}

static void check_size(struct check *c, const char *subject, uint64_t size, size_t least, uint64_t stride)
{
    if (size < least || size % 8 != 0 || size > 65536)
        check_fail(c, "description", subject, "struct_size as sizeof gives it", "set .struct_size = sizeof(the struct)",
                   "struct_size is %llu", (unsigned long long)size);
    else if (stride != 0 && (stride < size || stride % 8 != 0))
        check_fail(c, "description", subject, "a stride of at least struct_size", "set the stride to sizeof(array[0])",
                   "the stride is %llu, struct_size %llu", (unsigned long long)stride, (unsigned long long)size);
}

/* ------------------------------------------------------------------ providers */

static void check_option(struct check *c, const char *subject, const inlay_provider *p, uint32_t index)
{
    const inlay_option *o = INLAY_AT(inlay_option, p->options, p->option_stride, index);
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_option_value value;

    if (!is_word(o->name, "_")) {
        check_fail(c, "options", subject, "a name of a-z, 0-9 and _", "rename it", "option %u is called '%s'", index,
                   o->name != NULL ? o->name : "");
        return;
    }
    if (o->kind < INLAY_OPTION_BOOL || o->kind > INLAY_OPTION_ENUM)
        check_fail(c, "options", subject, "a kind that inlay/plugin.h names", "set .kind = INLAY_OPTION_...",
                   "option %s has kind %u", o->name, o->kind);
    else if (o->kind == INLAY_OPTION_ENUM && is_empty(o->choices))
        check_fail(c, "options", subject, "the choices of an enum", "set .choices = \"a|b\"", "option %s has none",
                   o->name);
    else if (provider_parse_options(p->name, o, 1, NULL, 0, &value, &diag) != INLAY_OK)
        check_fail(c, "options", subject, "a default that the option itself accepts", "change .default_value", "%s",
                   diag.text);
    if (o->min > o->max || o->reserved != 0)
        check_fail(c, "options", subject, "min <= max, and reserved zero", "use designated initialisers",
                   "option %s has min %lld, max %lld, reserved %u", o->name, (long long)o->min, (long long)o->max,
                   o->reserved);
    if (is_empty(o->doc))
        check_warn(c, "options", subject, "a sentence that `inlay providers` shows", "set .doc", "option %s has none",
                   o->name);
    for (uint32_t j = 0; j < index; j++) {
        const inlay_option *other = INLAY_AT(inlay_option, p->options, p->option_stride, j);

        if (other->name != NULL && strcmp(other->name, o->name) == 0)
            check_fail(c, "options", subject, "different names", "rename one", "two options are called %s", o->name);
    }
}

static void check_options(struct check *c, const inlay_provider *p)
{
    if (p->option_count == 0)
        return;
    if (p->options == NULL || p->option_stride < sizeof(inlay_option) || p->option_count > 1024) {
        check_fail(c, "options", p->name, "a list of inlay_option",
                   "set options, option_count and option_stride = sizeof options[0]",
                   "%u options at %p, %u bytes apart", p->option_count, (const void *)p->options, p->option_stride);
        return;
    }
    for (uint32_t i = 0; i < p->option_count; i++)
        check_option(c, p->name, p, i);
    check_pass(c, "options", p->name, "%u looked at", p->option_count);
}

static void check_domains(struct check *c, const inlay_provider *p)
{
    if (p->default_domain > p->domain_count)
        check_fail(c, "domains", p->name, "a default_domain of at most domain_count", "0 = host, k = domains[k - 1]",
                   "%u of %u", p->default_domain, p->domain_count);
    if (p->domain_count == 0)
        return;
    if (p->domains == NULL || p->domain_stride < sizeof(inlay_domain_info) || p->domain_count > 64) {
        check_fail(c, "domains", p->name, "a list of inlay_domain_info", "set domains, domain_count, domain_stride",
                   "%u domains at %p, %u bytes apart", p->domain_count, (const void *)p->domains, p->domain_stride);
        return;
    }
    if (p->buffer_alloc == NULL || p->buffer_free == NULL || p->buffer_copy == NULL)
        check_fail(c, "domains", p->name, "buffer_alloc, buffer_free and buffer_copy", "set all three",
                   "one of them is NULL");
    for (uint32_t i = 0; i < p->domain_count; i++) {
        const inlay_domain_info *d = INLAY_AT(inlay_domain_info, p->domains, p->domain_stride, i);

        if (is_empty(d->name) || d->alignment == 0 || (d->alignment & (d->alignment - 1)) != 0 || d->reserved != 0)
            check_fail(c, "domains", p->name, "a name, an alignment that is a power of two, and reserved zero",
                       "fill in all members", "domain %u '%s' is aligned to %llu, reserved is %u", i,
                       d->name != NULL ? d->name : "", (unsigned long long)d->alignment, d->reserved);
        if (((d->flags & INLAY_DOMAIN_HOST_VISIBLE) != 0 && (p->buffer_map == NULL || p->buffer_unmap == NULL)) ||
            ((d->flags & INLAY_DOMAIN_IMPORTS_HOST) != 0 && p->import_host == NULL))
            check_fail(c, "domains", p->name, "the functions that a domain's flags promise",
                       "set buffer_map and buffer_unmap, or import_host, or drop the flag", "domain %u lacks them", i);
        check_flags(c, p->name, d->flags,
                    INLAY_DOMAIN_HOST_VISIBLE | INLAY_DOMAIN_COHERENT | INLAY_DOMAIN_IMPORTS_HOST);
    }
}

static void check_entries(struct check *c, const inlay_provider *p)
{
    const struct {
        const char *name;
        bool set;
    } required[] = {
        { "create", p->create != NULL },         { "destroy", p->destroy != NULL },
        { "assess", p->assess != NULL },         { "cost", p->cost != NULL },
        { "compile", p->compile != NULL },       { "release_compiled", p->release_compiled != NULL },
        { "specialize", p->specialize != NULL }, { "release_instance", p->release_instance != NULL },
        { "execute", p->execute != NULL },
    };

    for (size_t i = 0; i < sizeof required / sizeof required[0]; i++)
        if (!required[i].set)
            check_fail(c, "description", p->name, "every entry that is not marked optional",
                       "write it; one that has nothing to do may be empty", "%s is NULL", required[i].name);
    if ((p->fingerprint == NULL) != (p->cache_verdict == NULL))
        check_fail(c, "description", p->name, "both of fingerprint and cache_verdict, or neither",
                   "write the other one", "%s is NULL", p->fingerprint == NULL ? "fingerprint" : "cache_verdict");
}

static void check_provider(struct check *c, const loaded_plugin *l, uint32_t index)
{
    const inlay_provider *p = &l->providers[index];

    if (!is_word(p->name, "_")) {
        check_fail(c, "description", NULL, "a provider name of a-z, 0-9 and _", "rename it", "provider %u is '%s'",
                   index, p->name != NULL ? p->name : "");
        return;
    }
    check_size(c, p->name, p->struct_size, offsetof(inlay_provider, extension) + sizeof p->extension,
               l->table.provider_stride);
    if (is_empty(p->description))
        check_warn(c, "description", p->name, "a line that `inlay providers` shows", "set .description",
                   "there is none");
    if (p->device_kind < INLAY_DEVICE_CPU || p->device_kind > INLAY_DEVICE_OTHER)
        check_fail(c, "description", p->name, "a device_kind that inlay/plugin.h names", "set .device_kind", "it is %u",
                   p->device_kind);
    check_flags(c, p->name, p->flags, INLAY_PROVIDER_ASYNC | INLAY_PROVIDER_REFERENCE_CORE);
    check_entries(c, p);
    check_options(c, p);
    check_domains(c, p);
    for (uint32_t j = 0; j < index; j++)
        if (l->providers[j].name != NULL && strcmp(l->providers[j].name, p->name) == 0)
            check_fail(c, "description", p->name, "different names", "rename one", "two providers are called so");
    check_pass(c, "description", p->name, "provider of %llu bytes", (unsigned long long)p->struct_size);
}

/* ------------------------------------------------------------------ operators */

static void *parse_alloc(void *ctx, size_t bytes)
{
    return arena_alloc(ctx, bytes);
}

static void check_operator(struct check *c, const loaded_plugin *l, uint32_t index)
{
    const inlay_operator *op = &l->operators[index];
    inlay_diag diag = INLAY_DIAG_INIT;
    struct arena scratch = { 0 };
    op_schema schema;
    char subject[200];

    if (is_empty(op->op_type) || is_empty(op->domain) || is_empty(op->signature) || op->since_version == 0) {
        check_fail(c, "operators", NULL, "domain, op_type, signature and since_version", "set all four",
                   "operator %u (%s) lacks one", index, op->op_type != NULL ? op->op_type : "nameless");
        return;
    }
    (void)snprintf(subject, sizeof subject, "%.90s.%.90s-%u", op->domain, op->op_type, op->since_version);
    check_size(c, subject, op->struct_size, offsetof(inlay_operator, example_stride) + sizeof op->example_stride,
               l->table.operator_stride);
    check_flags(c, subject, op->flags, INLAY_OPERATOR_RANDOM);
    if (op_domain_known(op->domain))
        check_fail(c, "operators", subject, "a domain of your own, such as com.example", "rename the domain",
                   "'%s' is ONNX's", op->domain);
    if (op_schema_parse(op->signature, parse_alloc, &scratch, &schema, &diag) != INLAY_OK)
        check_fail(c, "operators", subject, "a signature as inlay/plugin.h describes it", "correct it", "%s",
                   diag.text);
    else
        check_pass(c, "operators", subject, "%s", op->signature);
    arena_deinit(&scratch);
    if (is_empty(op->doc))
        check_warn(c, "operators", subject, "a paragraph that `inlay providers` shows", "set .doc", "there is none");
    if (op->example_count == 0)
        check_warn(c, "operators", subject, "examples, by which others can tell whether they compute the same",
                   "set .examples", "there are none");
    for (uint32_t j = 0; j < index; j++) {
        const inlay_operator *o = &l->operators[j];

        if (o->since_version == op->since_version && !is_empty(o->op_type) && !is_empty(o->domain) &&
            strcmp(o->op_type, op->op_type) == 0 && strcmp(o->domain, op->domain) == 0)
            check_fail(c, "operators", subject, "each operator once", "remove one, or raise its since_version",
                       "it is listed twice");
    }
}

/* ------------------------------------------------------------------ the plugin */

static void check_plugin_table(struct check *c, const loaded_plugin *l)
{
    const inlay_plugin *t = &l->table;
    bool found = false;

    check_size(c, "plugin", t->struct_size, offsetof(inlay_plugin, shutdown) + sizeof t->shutdown, 0);
    if (is_empty(t->name) || is_empty(t->version) || is_empty(t->build_id))
        check_fail(c, "description", "plugin", "name, version and build_id",
                   "set all three; build_id changes with every build that may compute differently",
                   "name '%s', version '%s', build_id '%s'", t->name != NULL ? t->name : "",
                   t->version != NULL ? t->version : "", t->build_id != NULL ? t->build_id : "");
    if (t->provider_count + t->operator_count == 0)
        check_fail(c, "description", "plugin", "a provider or an operator", "list one", "it brings neither");
    if (t->reserved != 0)
        check_fail(c, "description", "plugin", "reserved members that are zero", "use designated initialisers",
                   "reserved is %u", t->reserved);
    check_flags(c, "plugin", t->flags, INLAY_PLUGIN_DLCLOSE);
    check_pass(c, "description", "plugin", "%s %s for ABI %u.%u, build %s: %u providers, %u operators",
               is_empty(t->name) ? "?" : t->name, is_empty(t->version) ? "?" : t->version, t->abi_major, t->abi_minor,
               is_empty(t->build_id) ? "?" : t->build_id, t->provider_count, t->operator_count);
    for (uint32_t i = 0; i < t->provider_count; i++) {
        found |= c->args->provider != NULL && !is_empty(l->providers[i].name) &&
                 strcmp(c->args->provider, l->providers[i].name) == 0;
        check_provider(c, l, i);
    }
    if (c->args->provider != NULL && !found)
        check_fail(c, "description", "plugin", "a provider of the name that --provider gives", "see the names above",
                   "there is no '%s'", c->args->provider);
    for (uint32_t i = 0; i < t->operator_count; i++)
        check_operator(c, l, i);
}

/* Opening again must say the same, and opening after shutdown must work: a file stays mapped between sessions. */
static void check_twice(struct check *c, const loaded_plugin *l)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    const inlay_plugin *again = NULL;

    check_phase(c, "a second inlay_plugin_open");
    if (l->open(host_table(), &again, &diag) != INLAY_OK || again == NULL)
        check_fail(c, "open", "twice", "the same answer", "let inlay_plugin_open only fill in its description",
                   "the second call failed: %s", diag.text);
    else if (strcmp(again->name, l->table.name) != 0 || again->provider_count != l->table.provider_count ||
             again->operator_count != l->table.operator_count)
        check_fail(c, "open", "twice", "the same answer", "let inlay_plugin_open only fill in its description",
                   "the second call described another plugin");
    else
        check_pass(c, "open", "twice", "the same answer");
    if (l->table.shutdown == NULL)
        return;
    check_phase(c, "shutdown");
    l->table.shutdown(l->table.ctx);
    check_phase(c, "inlay_plugin_open after shutdown");
    if (l->open(host_table(), &again, &diag) != INLAY_OK)
        check_fail(c, "open", "after shutdown", "that it can be opened again", "let shutdown undo all that open did",
                   "%s", diag.text);
    else
        check_pass(c, "open", "after shutdown", "it can be opened again");
}

/* A device that is not there is no defect; anything else that keeps a provider from being created is. */
static void check_create(struct check *c, const loaded_plugin *l, uint32_t index)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    const char *name = l->providers[index].name;
    loaded_provider p;
    inlay_status status;

    if (l->providers[index].create == NULL || l->providers[index].destroy == NULL ||
        (c->args->provider != NULL && (name == NULL || strcmp(name, c->args->provider) != 0)))
        return;
    check_phase(c, "create");
    status = loaded_create(l, index, c->args, &p, &diag);
    if (status == INLAY_UNSUPPORTED && diag.text[0] != '\0')
        check_skip(c, "create", name, "what it needs is not here, so most checks are left out: %s", diag.text);
    else if (status != INLAY_OK)
        check_fail(c, "create", name, "that it can be created with these options, or INLAY_UNSUPPORTED and a sentence",
                   "say in diag what is missing; --option NAME=VALUE sets options", "it returned '%s': %s",
                   inlay_status_text(status), diag.text);
    else
        check_pass(c, "create", name, "created");
    check_phase(c, "destroy");
    if (status == INLAY_OK)
        loaded_destroy(&p);
}

/* Hosts of other ages: newer ones of the same major bring a longer table; those of another major are refused. */
static void check_hosts(struct check *c, const loaded_plugin *l)
{
    struct {
        inlay_host now;
        uint64_t later[8];
    } host = { .now = *host_table() };
    inlay_diag diag = INLAY_DIAG_INIT;
    const inlay_plugin *out = NULL;

    check_phase(c, "inlay_plugin_open with a newer host");
    host.now.struct_size = sizeof host;
    host.now.abi_minor = INLAY_ABI_MINOR + 7;
    if (l->open(&host.now, &out, &diag) != INLAY_OK)
        check_fail(c, "open", "newer host", "that a host with more in its table will do",
                   "ask INLAY_HAS(host, what you need), not for a minor version or an exact struct_size", "%s",
                   diag.text);
    else
        check_pass(c, "open", "newer host", "accepted");
    check_phase(c, "inlay_plugin_open with a host of another major");
    host.now.abi_major = INLAY_ABI_MAJOR + 1;
    host.now.abi_major_oldest = INLAY_ABI_MAJOR + 1;
    diag = (inlay_diag)INLAY_DIAG_INIT;
    if (l->open(&host.now, &out, &diag) == INLAY_OK)
        check_fail(c, "open", "next major", "INLAY_UNSUPPORTED from a host that no longer loads this major",
                   "compare host->abi_major_oldest and abi_major with INLAY_ABI_MAJOR, as kit_open does",
                   "the plugin accepted it");
    else if (diag.text[0] == '\0')
        check_fail(c, "open", "next major", "a sentence", "fill in diag with inlay_fail", "it refused without a word");
    else
        check_pass(c, "open", "next major", "refused: %s", diag.text);
    (void)l->open(host_table(), &out, &diag); /* so that it keeps the table of the real one */
}

static const char *provider_name(const void *ctx, uint32_t i)
{
    return ((const inlay_provider *)ctx)[i].name;
}

/* Hosts refuse a file whose note says something else than its code. */
static void check_note(struct check *c, const loaded_plugin *l)
{
    int fd = open(l->path, O_RDONLY | O_CLOEXEC);
    inlay_diag diag = INLAY_DIAG_INIT;
    note_facts facts;
    struct stat st;

    if (fd >= 0 && fstat(fd, &st) == 0 && note_read(fd, (uint64_t)st.st_size, &facts, &diag) == INLAY_OK &&
        facts.present) {
        if (note_agrees(&facts, &l->table, provider_name, l->providers, l->operators, &diag) != INLAY_OK)
            check_fail(c, "open", "note", "that the note says what inlay_plugin_open says",
                       "correct the texts of KIT_PLUGIN_NAMED or INLAY_PLUGIN_NOTE", "%s", diag.text);
        else
            check_pass(c, "open", "note", "it says what inlay_plugin_open says");
    }
    if (fd >= 0)
        (void)close(fd);
}

/* Symbols that only the host happens to have loaded would be missing elsewhere. */
static void check_borrowed_symbols(struct check *c, const loaded_plugin *l)
{
    char missing[400];
    uint32_t count = process_undefined(l->path, l->handle, missing, sizeof missing);

    if (count > 0)
        check_fail(c, "file", "undefined", "every symbol from a library that the plugin names itself",
                   "link with the library that has them (-l...)", "%u come from what the host has loaded: %s", count,
                   missing);
    else
        check_pass(c, "file", "undefined", "every symbol comes from a library that it names");
}

void check_group_open(struct check *c)
{
    const process_state before = process_look();
    const process_snapshot own = process_snapshot_take();
    char changed[600];
    inlay_diag diag = INLAY_DIAG_INIT;
    loaded_plugin l;
    process_state after;
    inlay_status status;

    if (!check_unit(c, "%s", c->args->file))
        return;
    check_phase(c, "dlopen and inlay_plugin_open");
    c->beacon->open = 1;
    status = loaded_open(c->args->file, &l, &diag);
    c->beacon->open = 0;
    if (status != INLAY_OK) {
        check_fail(c, "open", NULL, "that it loads and describes itself", "see what is missing", "%s", diag.text);
        c->beacon->broken = 1;
        return;
    }
    after = process_look();
    if (after.threads > before.threads)
        check_fail(c, "open", "pure", "no thread before create", "start threads in create, or use the host's pool",
                   "%d threads were started", after.threads - before.threads);
    if (after.files > before.files)
        check_fail(c, "open", "pure", "no open file or device before create", "open them in create",
                   "%d file descriptors are open", after.files - before.files);
    if (after.threads <= before.threads && after.files <= before.files)
        check_pass(c, "open", "pure", "no thread and no file descriptor more than before");
    check_phase(c, "reading the description");
    check_plugin_table(c, &l);
    check_note(c, &l);
    check_borrowed_symbols(c, &l);
    for (uint32_t i = 0; i < l.table.provider_count; i++)
        check_create(c, &l, i);
    check_twice(c, &l);
    check_hosts(c, &l);
    check_phase(c, "shutdown and dlclose");
    loaded_close(&l);
    if (process_snapshot_compare(&own, changed, sizeof changed) > 0)
        check_fail(c, "manners", "open, create and destroy", "what a plugin leaves alone as it was",
                   "see \"What a plugin leaves alone\" in inlay/plugin.h; inlay_host.log is for words", "%s", changed);
}
