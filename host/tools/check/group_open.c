/* Checks the description of the plugin, and that opening it has no side effects. */
#include "check/engines.h"
#include "check/loaded.h"
#include "check/host.h"
#include "check/process.h"
#include "probe/process_snapshot.h"
#include "plugin/note.h"
#include "plugin/plugin.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KNOWN_HALF 0xffffu /* hosts refuse unknown bits in this half and ignore them in the other (plugin.h, Growth) */

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

/* NULL equals NULL. */
static bool same_text(const char *left, const char *right)
{
    return left == NULL || right == NULL ? left == right : strcmp(left, right) == 0;
}

static void check_flags(struct check *check, const char *subject, uint32_t flags, uint32_t known)
{
    uint32_t low = flags & KNOWN_HALF & ~known, high = flags & ~KNOWN_HALF & ~known;

    if (low != 0)
        check_fail(check, "description", subject, "flags that inlay/plugin.h names", "leave the other bits zero",
                   "flags contains 0x%x, so hosts refuse the plugin", low);
    if (high != 0)
        check_warn(check, "description", subject, "flags that inlay/plugin.h names", "leave the other bits zero",
                   "flags contains 0x%x, which hosts ignore", high);
}

static void check_size(struct check *check, const char *subject, uint64_t size, size_t least, uint64_t stride)
{
    if (size < least || size % 8 != 0 || size > 65536)
        check_fail(check, "description", subject, "struct_size = sizeof(the struct)",
                   "set .struct_size = sizeof(the struct)", "struct_size is %llu", (unsigned long long)size);
    else if (stride != 0 && (stride < size || stride % 8 != 0))
        check_fail(check, "description", subject, "a stride of at least struct_size",
                   "set the stride to sizeof(array[0])", "the stride is %llu, struct_size %llu",
                   (unsigned long long)stride, (unsigned long long)size);
}

static void check_option(struct check *check, const char *subject, const inlay_provider *provider, uint32_t index)
{
    const inlay_option *option = INLAY_AT(inlay_option, provider->options, provider->option_stride, index);
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_option_value value;

    if (!is_word(option->name, "_")) {
        check_fail(check, "options", subject, "a name of a-z, 0-9 and _", "rename it", "option %u is called '%s'",
                   index, option->name != NULL ? option->name : "");
        return;
    }
    if (option->kind < INLAY_OPTION_BOOL || option->kind > INLAY_OPTION_ENUM)
        check_fail(check, "options", subject, "a kind that inlay/plugin.h names", "set .kind = INLAY_OPTION_...",
                   "option %s has kind %u", option->name, option->kind);
    else if (option->kind == INLAY_OPTION_ENUM && is_empty(option->choices))
        check_fail(check, "options", subject, "the choices of an enum", "set .choices = \"a|b\"",
                   "option %s has no choices", option->name);
    else if (provider_parse_options(provider->name, option, 1, NULL, 0, &value, &diag) != INLAY_OK)
        check_fail(check, "options", subject, "a default value that the option accepts", "change .default_value", "%s",
                   diag.text);
    if (option->min > option->max || option->reserved != 0)
        check_fail(check, "options", subject, "min <= max, and reserved zero", "use designated initialisers",
                   "option %s has min %lld, max %lld, reserved %u", option->name, (long long)option->min,
                   (long long)option->max, option->reserved);
    if (is_empty(option->doc))
        check_warn(check, "options", subject, "documentation, which `inlay providers` shows", "set .doc",
                   "option %s has no documentation", option->name);
    for (uint32_t j = 0; j < index; j++) {
        const inlay_option *other = INLAY_AT(inlay_option, provider->options, provider->option_stride, j);

        if (other->name != NULL && strcmp(other->name, option->name) == 0)
            check_fail(check, "options", subject, "different names", "rename one", "two options are called %s",
                       option->name);
    }
}

static void check_options(struct check *check, const inlay_provider *provider)
{
    if (provider->option_count == 0)
        return;
    if (provider->options == NULL || provider->option_stride < sizeof(inlay_option) || provider->option_count > 1024) {
        check_fail(check, "options", provider->name, "a list of inlay_option",
                   "set options, option_count and option_stride = sizeof options[0]",
                   "%u options at %p, %u bytes apart", provider->option_count, (const void *)provider->options,
                   provider->option_stride);
        return;
    }
    for (uint32_t i = 0; i < provider->option_count; i++)
        check_option(check, provider->name, provider, i);
    check_pass(check, "options", provider->name, "%u checked", provider->option_count);
}

static void check_domains(struct check *check, const inlay_provider *provider)
{
    if (provider->default_domain > provider->domain_count)
        check_fail(check, "domains", provider->name, "a default_domain of at most domain_count",
                   "0 = host, k = domains[k - 1]", "%u of %u", provider->default_domain, provider->domain_count);
    if (provider->domain_count == 0)
        return;
    if (provider->domains == NULL || provider->domain_stride < offsetof(inlay_domain_info, exports) ||
        provider->domain_count > 64) {
        check_fail(check, "domains", provider->name, "a list of inlay_domain_info",
                   "set domains, domain_count, domain_stride", "%u domains at %p, %u bytes apart",
                   provider->domain_count, (const void *)provider->domains, provider->domain_stride);
        return;
    }
    if (provider->buffer_alloc == NULL || provider->buffer_free == NULL || provider->buffer_copy == NULL)
        check_fail(check, "domains", provider->name, "buffer_alloc, buffer_free and buffer_copy", "set all three",
                   "one of them is NULL");
    for (uint32_t i = 0; i < provider->domain_count; i++) {
        const inlay_domain_info *info = INLAY_AT(inlay_domain_info, provider->domains, provider->domain_stride, i);

        if (is_empty(info->name) || info->alignment == 0 || (info->alignment & (info->alignment - 1)) != 0 ||
            info->reserved != 0)
            check_fail(check, "domains", provider->name,
                       "a name, an alignment that is a power of two, and reserved zero", "fill in all members",
                       "domain %u '%s' is aligned to %llu, reserved is %u", i, info->name != NULL ? info->name : "",
                       (unsigned long long)info->alignment, info->reserved);
        if (((info->flags & INLAY_DOMAIN_HOST_VISIBLE) != 0 &&
             (provider->buffer_map == NULL || provider->buffer_unmap == NULL)) ||
            ((info->flags & INLAY_DOMAIN_IMPORTS_HOST) != 0 && provider->buffer_import == NULL))
            check_fail(check, "domains", provider->name, "the functions that the flags of a domain require",
                       "set buffer_map and buffer_unmap, or buffer_import, or drop the flag", "domain %u has none", i);
        if (INLAY_STRIDE_HAS(inlay_domain_info, provider->domain_stride, imports) &&
            ((info->exports != 0 && provider->buffer_export == NULL) ||
             (info->imports != 0 && provider->buffer_import == NULL)))
            check_fail(check, "domains", provider->name, "the functions that exports and imports of a domain require",
                       "set buffer_export or buffer_import, or leave the set empty",
                       "domain %u has exports 0x%x, imports 0x%x", i, info->exports, info->imports);
        check_flags(check, provider->name, info->flags,
                    INLAY_DOMAIN_HOST_VISIBLE | INLAY_DOMAIN_COHERENT | INLAY_DOMAIN_IMPORTS_HOST);
    }
}

static void check_entries(struct check *check, const inlay_provider *provider)
{
    const struct {
        const char *name;
        bool set;
    } required[] = {
        { "create", provider->create != NULL },         { "destroy", provider->destroy != NULL },
        { "assess", provider->assess != NULL },         { "cost", provider->cost != NULL },
        { "compile", provider->compile != NULL },       { "release_compiled", provider->release_compiled != NULL },
        { "specialize", provider->specialize != NULL }, { "release_instance", provider->release_instance != NULL },
        { "execute", provider->execute != NULL },
    };

    for (size_t i = 0; i < sizeof required / sizeof required[0]; i++)
        if (!required[i].set)
            check_fail(check, "description", provider->name, "every entry that is not marked optional",
                       "implement it; it may do nothing", "%s is NULL", required[i].name);
    if ((provider->fingerprint == NULL) != (provider->cache_verdict == NULL))
        check_fail(check, "description", provider->name, "both fingerprint and cache_verdict, or neither",
                   "implement the other one", "%s is NULL",
                   provider->fingerprint == NULL ? "fingerprint" : "cache_verdict");
}

static void check_provider(struct check *check, const loaded_plugin *plugin, uint32_t index)
{
    const inlay_provider *provider = &plugin->providers[index];

    if (!is_word(provider->name, "_")) {
        check_fail(check, "description", NULL, "a provider name of a-z, 0-9 and _", "rename it", "provider %u is '%s'",
                   index, provider->name != NULL ? provider->name : "");
        return;
    }
    check_size(check, provider->name, provider->struct_size,
               offsetof(inlay_provider, extension) + sizeof provider->extension, plugin->table.provider_stride);
    if (is_empty(provider->description))
        check_warn(check, "description", provider->name, "a description, which `inlay providers` shows",
                   "set .description", "it has no description");
    if (provider->device_kind < INLAY_DEVICE_CPU || provider->device_kind > INLAY_DEVICE_OTHER)
        check_fail(check, "description", provider->name, "a device_kind that inlay/plugin.h names", "set .device_kind",
                   "it is %u", provider->device_kind);
    check_flags(check, provider->name, provider->flags,
                INLAY_PROVIDER_ASYNC | INLAY_PROVIDER_SERIAL_EXECUTE | INLAY_PROVIDER_REFERENCE_CORE |
                    INLAY_PROVIDER_CONCURRENT_COMPILE | INLAY_PROVIDER_FLUSHES_DENORMALS);
    check_entries(check, provider);
    check_options(check, provider);
    check_domains(check, provider);
    for (uint32_t j = 0; j < index; j++)
        if (plugin->providers[j].name != NULL && strcmp(plugin->providers[j].name, provider->name) == 0)
            check_fail(check, "description", provider->name, "different names", "rename one",
                       "two providers have this name");
    check_pass(check, "description", provider->name, "provider of %llu bytes",
               (unsigned long long)provider->struct_size);
}

static void *parse_alloc(void *ctx, size_t bytes)
{
    return arena_alloc(ctx, bytes);
}

/* The first input or output that cannot be a tensor; NULL: none. */
static const op_formal *find_list_formal(const op_schema *schema)
{
    for (uint32_t i = 0; i < schema->input_count + schema->output_count; i++) {
        const op_formal *formal =
            i < schema->input_count ? &schema->inputs[i] : &schema->outputs[i - schema->input_count];

        if (formal->type_param >= 0 && schema->types[formal->type_param].types.tensor == 0)
            return formal;
    }
    return NULL;
}

static void check_operator(struct check *check, const loaded_plugin *plugin, uint32_t index)
{
    const inlay_operator *op = &plugin->operators[index];
    inlay_diag diag = INLAY_DIAG_INIT;
    struct arena scratch = { 0 };
    op_schema schema;
    char subject[200];

    if (is_empty(op->op_type) || is_empty(op->domain) || is_empty(op->signature) || op->since_version == 0) {
        check_fail(check, "operators", NULL, "domain, op_type, signature and since_version", "set all four",
                   "operator %u (%s) lacks one of them", index, op->op_type != NULL ? op->op_type : "unnamed");
        return;
    }
    (void)snprintf(subject, sizeof subject, "%.90s.%.90s-%u", op->domain, op->op_type, op->since_version);
    check_size(check, subject, op->struct_size, offsetof(inlay_operator, example_stride) + sizeof op->example_stride,
               plugin->table.operator_stride);
    check_flags(check, subject, op->flags, INLAY_OPERATOR_RANDOM);
    if (op_domain_known(op->domain))
        check_fail(check, "operators", subject, "a domain of your own, such as com.example", "rename the domain",
                   "'%s' is ONNX's", op->domain);
    if (op_schema_parse(op->signature, parse_alloc, &scratch, &schema, &diag) != INLAY_OK)
        check_fail(check, "operators", subject, "a signature as inlay/graph_view.h describes it", "correct it", "%s",
                   diag.text);
    else if (find_list_formal(&schema) != NULL)
        check_fail(check, "operators", subject, "tensors as inputs and outputs",
                   "pass the items of a sequence as a variadic input or output ('*')",
                   "%s is a sequence, an optional or a map, so no provider gets the node",
                   find_list_formal(&schema)->name);
    else
        check_pass(check, "operators", subject, "%s", op->signature);
    arena_deinit(&scratch);
    if (is_empty(op->doc))
        check_warn(check, "operators", subject, "documentation, which `inlay providers` shows",
                   "set .doc (in C++ with_doc())", "it has no documentation");
    if (op->example_count == 0)
        check_warn(check, "operators", subject, "examples, to test other implementations with",
                   "set .examples (in C++ with_example())", "it has no examples");
    for (uint32_t j = 0; j < index; j++) {
        const inlay_operator *operator= & plugin->operators[j];

        if (operator->since_version == op->since_version && !is_empty(operator->op_type) &&
            !is_empty(operator->domain) && strcmp(operator->op_type, op->op_type) == 0 &&
            strcmp(operator->domain, op->domain) == 0)
            check_fail(check, "operators", subject, "each operator once", "remove one, or raise its since_version",
                       "it is listed twice");
    }
}

static void check_plugin_table(struct check *check, const loaded_plugin *plugin)
{
    const inlay_plugin *table = &plugin->table;
    bool found = false;

    check_size(check, "plugin", table->struct_size, offsetof(inlay_plugin, shutdown) + sizeof table->shutdown, 0);
    if (is_empty(table->name) || is_empty(table->version) || is_empty(table->build_id))
        check_fail(check, "description", "plugin", "name, version and build_id",
                   "set all three; build_id changes with every build that may compute differently",
                   "name '%s', version '%s', build_id '%s'", table->name != NULL ? table->name : "",
                   table->version != NULL ? table->version : "", table->build_id != NULL ? table->build_id : "");
    if (table->provider_count + table->operator_count == 0)
        check_fail(check, "description", "plugin", "a provider or an operator", "list one", "it has neither");
    if (table->reserved != 0)
        check_fail(check, "description", "plugin", "reserved members that are zero", "use designated initialisers",
                   "reserved is %u", table->reserved);
    check_flags(check, "plugin", table->flags, INLAY_PLUGIN_DLCLOSE);
    check_pass(check, "description", "plugin", "%s %s for ABI %u.%u, build %s: %u providers, %u operators",
               is_empty(table->name) ? "?" : table->name, is_empty(table->version) ? "?" : table->version,
               table->abi_major, table->abi_minor, is_empty(table->build_id) ? "?" : table->build_id,
               table->provider_count, table->operator_count);
    for (uint32_t i = 0; i < table->provider_count; i++) {
        found |= check->args->provider != NULL && !is_empty(plugin->providers[i].name) &&
                 strcmp(check->args->provider, plugin->providers[i].name) == 0;
        check_provider(check, plugin, i);
    }
    if (check->args->provider != NULL && !found)
        check_fail(check, "description", "plugin", "a provider with the name given by --provider",
                   "see the names above", "no provider is called '%s'", check->args->provider);
    for (uint32_t i = 0; i < table->operator_count; i++)
        check_operator(check, plugin, i);
}

/* A second open must return the same description, and open must work after shutdown: a file stays mapped between
 * sessions. */
static void check_twice(struct check *check, const loaded_plugin *plugin)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    const inlay_plugin *again = NULL;

    check_phase(check, "a second inlay_plugin_open");
    if (plugin->open(check_host(), &again, &diag) != INLAY_OK || again == NULL)
        check_fail(check, "open", "twice", "the same answer", "let inlay_plugin_open only fill in its description",
                   "the second call failed: %s", diag.text);
    else if (!same_text(again->name, plugin->table.name) || again->provider_count != plugin->table.provider_count ||
             again->operator_count != plugin->table.operator_count)
        check_fail(check, "open", "twice", "the same answer", "let inlay_plugin_open only fill in its description",
                   "the second call described another plugin");
    else
        check_pass(check, "open", "twice", "the same answer");
    if (plugin->table.shutdown == NULL)
        return;
    check_phase(check, "shutdown");
    plugin->table.shutdown(plugin->table.ctx);
    check_phase(check, "inlay_plugin_open after shutdown");
    if (plugin->open(check_host(), &again, &diag) != INLAY_OK)
        check_fail(check, "open", "after shutdown", "the plugin can be opened again",
                   "undo in shutdown everything that inlay_plugin_open did", "%s", diag.text);
    else
        check_pass(check, "open", "after shutdown", "the plugin can be opened again");
}

/* A missing device is not a defect; any other failure of create is. */
static void check_create(struct check *check, const loaded_plugin *plugin, uint32_t index)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    const char *name = plugin->providers[index].name;
    loaded_provider provider;
    inlay_status status;

    if (plugin->providers[index].create == NULL || plugin->providers[index].destroy == NULL ||
        (check->args->provider != NULL && (name == NULL || strcmp(name, check->args->provider) != 0)))
        return;
    check_phase(check, "create");
    status = loaded_create(plugin, index, check->args, &provider, &diag);
    if (status == INLAY_UNSUPPORTED && diag.text[0] != '\0')
        check_skip(check, "create", name, "not usable on this machine, so most checks are skipped: %s", diag.text);
    else if (status != INLAY_OK)
        check_fail(check, "create", name,
                   "the provider can be created with these options, or returns INLAY_UNSUPPORTED and a message",
                   "name in diag the missing part; --option NAME=VALUE sets options", "it returned '%s': %s",
                   inlay_status_text(status), diag.text);
    else
        check_pass(check, "create", name, "created");
    check_phase(check, "fingerprint");
    if (status == INLAY_OK)
        (void)engines_same_print(check, &provider); /* group cache compares it in another process */
    check_phase(check, "destroy");
    if (status == INLAY_OK)
        loaded_destroy(&provider);
}

/* Opens the plugin with other hosts. It must accept a newer host of the same major version, whose table is longer, and
 * refuse a host of another major version. */
static void check_hosts(struct check *check, const loaded_plugin *plugin)
{
    struct {
        inlay_host now;
        uint64_t later[8];
    } host = { .now = *check_host() };
    inlay_diag diag = INLAY_DIAG_INIT;
    const inlay_plugin *out = NULL;

    check_phase(check, "inlay_plugin_open with a newer host");
    host.now.struct_size = sizeof host;
    host.now.abi_minor = INLAY_ABI_MINOR + 7;
    if (plugin->open(&host.now, &out, &diag) != INLAY_OK)
        check_fail(check, "open", "newer host", "a host with a longer table is accepted",
                   "test INLAY_HAS(host, member), not the minor version or an exact struct_size", "%s", diag.text);
    else
        check_pass(check, "open", "newer host", "accepted");
    check_phase(check, "inlay_plugin_open with a host of another major");
    host.now.abi_major = INLAY_ABI_MAJOR + 1;
    host.now.abi_major_oldest = INLAY_ABI_MAJOR + 1;
    diag = (inlay_diag)INLAY_DIAG_INIT;
    if (plugin->open(&host.now, &out, &diag) == INLAY_OK)
        check_fail(check, "open", "next major", "INLAY_UNSUPPORTED from a host that no longer loads this major",
                   "compare host->abi_major_oldest and abi_major with INLAY_ABI_MAJOR, as kit_open does",
                   "the plugin accepted it");
    else if (diag.text[0] == '\0')
        check_fail(check, "open", "next major", "a message", "fill in diag with inlay_fail",
                   "the plugin refused the host without a message");
    else
        check_pass(check, "open", "next major", "refused: %s", diag.text);
    (void)plugin->open(check_host(), &out, &diag); /* so that the plugin uses the table of the real host */
}

static const char *provider_name(const void *ctx, uint32_t i)
{
    return ((const inlay_provider *)ctx)[i].name;
}

/* Does the description have the names that a note is compared with? */
static bool has_names(const loaded_plugin *plugin)
{
    bool all = plugin->table.name != NULL;

    for (uint32_t i = 0; i < plugin->table.provider_count; i++)
        all &= plugin->providers[i].name != NULL;
    for (uint32_t i = 0; i < plugin->table.operator_count; i++)
        all &= plugin->operators[i].domain != NULL;
    return all;
}

/* Hosts refuse a file whose note contradicts its description. */
static void check_note(struct check *check, const loaded_plugin *plugin)
{
    int fd = open(plugin->path, O_RDONLY | O_CLOEXEC);
    inlay_diag diag = INLAY_DIAG_INIT;
    note_facts facts;
    struct stat st;

    if (has_names(plugin) && fd >= 0 && fstat(fd, &st) == 0 &&
        note_read(fd, (uint64_t)st.st_size, &facts, &diag) == INLAY_OK && facts.present) {
        if (note_agrees(&facts, &plugin->table, provider_name, plugin->providers, plugin->operators, &diag) != INLAY_OK)
            check_fail(check, "open", "note", "a note that matches the description of inlay_plugin_open",
                       "correct the texts of KIT_PLUGIN_NAMED or INLAY_PLUGIN_NOTE", "%s", diag.text);
        else
            check_pass(check, "open", "note", "it matches the description of inlay_plugin_open");
    }
    if (fd >= 0)
        (void)close(fd);
}

/* Checks that each symbol comes from a library that the plugin links to: a library that this host happens to load may
 * be missing in other hosts. */
static void check_borrowed_symbols(struct check *check, const loaded_plugin *plugin)
{
    char missing[400];
    uint32_t count = process_undefined(plugin->path, plugin->handle, missing, sizeof missing);

    if (count > 0)
        check_fail(check, "file", "undefined", "every symbol is defined in a library that the plugin links to",
                   "link with the library that defines them (-l...)", "%u come from libraries loaded by the host: %s",
                   count, missing);
    else
        check_pass(check, "file", "undefined", "every symbol is defined in a library that it links to");
}

void check_group_open(struct check *check)
{
    const process_state before = process_read_state();
    const process_snapshot own = process_snapshot_take();
    inlay_diag diag = INLAY_DIAG_INIT;
    loaded_plugin plugin;
    process_state after;
    inlay_status status;

    if (!check_unit(check, "%s", check->args->file))
        return;
    check_phase(check, "dlopen and inlay_plugin_open");
    check->progress->open = 1;
    status = loaded_open(check->args->file, false, &plugin, &diag);
    check->progress->open = 0;
    if (status != INLAY_OK) {
        check_fail(check, "open", NULL, "the plugin loads and describes itself", "see the message for the missing part",
                   "%s", diag.text);
        check->progress->broken = 1;
        return;
    }
    after = process_read_settled(&before);
    if (after.threads > before.threads)
        check_fail(check, "open", "pure", "no thread before create", "start threads in create, or use the host's pool",
                   "%d threads were started", after.threads - before.threads);
    if (after.files > before.files)
        check_fail(check, "open", "pure", "no open file or device before create", "open them in create",
                   "%d file descriptors are open", after.files - before.files);
    if (after.threads <= before.threads && after.files <= before.files)
        check_pass(check, "open", "pure", "no additional thread or file descriptor");
    check_phase(check, "reading the description");
    check_plugin_table(check, &plugin);
    check_note(check, &plugin);
    check_borrowed_symbols(check, &plugin);
    for (uint32_t i = 0; i < plugin.table.provider_count; i++)
        check_create(check, &plugin, i);
    check_twice(check, &plugin);
    check_hosts(check, &plugin);
    check_phase(check, "shutdown and dlclose");
    loaded_close(&plugin);
    check_process(check, "open, create and destroy", &own);
}
