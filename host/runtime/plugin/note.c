/* What a plugin's note permits and promises: whether this host can load the file, and whether its code agrees. */
#include "plugin/note.h"
#include "base/among.h"
#include "base/isa.h"
#include "inlay/plugin.h"
#include <stdio.h>
#include <string.h>

static const char *sanitizer_text(uint32_t bits)
{
    return (bits & INLAY_SANITIZER_ADDRESS) != 0     ? "AddressSanitizer"
           : (bits & INLAY_SANITIZER_THREAD) != 0    ? "ThreadSanitizer"
           : (bits & INLAY_SANITIZER_MEMORY) != 0    ? "MemorySanitizer"
           : (bits & INLAY_SANITIZER_HWADDRESS) != 0 ? "HWAddressSanitizer"
                                                     : "a sanitizer unknown to this host";
}

inlay_status note_fits_host(const note_facts *facts, inlay_diag *diag)
{
    uint32_t extra, level = isa_of_cpu(&extra), foreign = facts->sanitizers & ~(uint32_t)(INLAY_NOTE_SANITIZERS);

    if (foreign != 0)
        return inlay_fail(
            diag, INLAY_UNSUPPORTED,
            "built with %s, but this host is not, so its runtime would end the process; build both with it, or neither",
            sanitizer_text(foreign));
#ifdef __GLIBC__
    if (facts->needs_musl)
        return inlay_fail(
            diag, INLAY_UNSUPPORTED,
            "built for the C library musl, but this host uses glibc, and a process can have only one: build "
            "it on a system with glibc");
#endif
    if (!facts->present)
        return INLAY_OK;
    if (facts->note.abi_major > INLAY_ABI_MAJOR)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "built for plugin ABI %u.%u; this host loads %u.x: update inlay",
                          facts->note.abi_major, facts->note.abi_minor, INLAY_ABI_MAJOR);
    if (facts->note.abi_major < INLAY_ABI_MAJOR)
        return inlay_fail(
            diag, INLAY_UNSUPPORTED,
            "built for plugin ABI %u.%u; this host loads %u.x: rebuild the plugin with this inlay's headers",
            facts->note.abi_major, facts->note.abi_minor, INLAY_ABI_MAJOR);
    if (facts->note.abi_minor_oldest > INLAY_ABI_MINOR)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "needs a host with ABI %u.%u or newer; this host has %u.%u",
                          facts->note.abi_major, facts->note.abi_minor_oldest, INLAY_ABI_MAJOR, INLAY_ABI_MINOR);
    if ((facts->note.flags & 0xffffu) != 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "its note has flags 0x%x that this host does not know",
                          facts->note.flags);
    if (facts->note.isa > level)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "compiled for %s; this CPU has %s: build it with a lower -march",
                          isa_level_text(facts->note.isa), isa_level_text(level));
    if ((facts->note.isa_extra & ~extra) != 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "compiled for %s, which this CPU does not support: build it with a lower "
                          "-march",
                          isa_extra_text(facts->note.isa_extra & ~extra));
    return INLAY_OK;
}

bool note_advice(const note_facts *facts, char *text, size_t bytes)
{
    if (facts->openmp[0] == '\0')
        return false;
    (void)snprintf(text, bytes,
                   "it brings a second OpenMP runtime (%s), whose threads compete with those of libgomp: build it with "
                   "gcc -fopenmp, or with inlay_host.parallel_for",
                   facts->openmp);
    return true;
}

inlay_status note_explain_rejection(const note_facts *facts, const char *message, inlay_diag *diag)
{
    if (strstr(message, "static TLS") == NULL)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s", message);
    return inlay_fail(
        diag, INLAY_IO_ERROR,
        "%.200s: part of its %llu bytes of thread-local storage has the TLS model initial-exec; compile it "
        "and the static libraries in it with -ftls-model=global-dynamic",
        message, (unsigned long long)facts->tls_bytes);
}

static uint32_t count_words(const char *list)
{
    uint32_t count = 0;

    for (const char *at = list + strspn(list, " "); *at != '\0'; at += strspn(at, " ")) {
        at += strcspn(at, " ");
        count++;
    }
    return count;
}

static inlay_status note_mismatch(inlay_diag *diag, const char *what, const char *note, const char *code)
{
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                      "its note is wrong: %s '%.150s' in the note, but '%.150s' in inlay_plugin_open; "
                      "correct the arguments of INLAY_PLUGIN_NOTE or KIT_PLUGIN_NAMED, or INLAY_NOTE_VERSION",
                      what, note, code);
}

inlay_status note_agrees(const note_facts *facts, const inlay_plugin *table,
                         const char *(*provider_name)(const void *ctx, uint32_t i), const void *ctx,
                         const inlay_operator *operators, inlay_diag *diag)
{
    char values[2][32];
    uint32_t domains = 0;

    if (!facts->present)
        return INLAY_OK;
    if (facts->note.abi_major != table->abi_major || facts->note.abi_minor != table->abi_minor) {
        (void)snprintf(values[0], sizeof values[0], "%u.%u", facts->note.abi_major, facts->note.abi_minor);
        (void)snprintf(values[1], sizeof values[1], "%u.%u", table->abi_major, table->abi_minor);
        return note_mismatch(diag, "the ABI is", values[0], values[1]);
    }
    if (facts->name[0] == '\0')
        return INLAY_OK;
    if (strcmp(facts->name, table->name) != 0)
        return note_mismatch(diag, "the plugin is", facts->name, table->name);
    if (facts->version[0] != '\0' && strcmp(facts->version, table->version != NULL ? table->version : "") != 0)
        return note_mismatch(diag, "the version is", facts->version, table->version != NULL ? table->version : "");
    for (uint32_t i = 0; i < table->provider_count; i++)
        if (!is_among(provider_name(ctx, i), facts->providers))
            return note_mismatch(diag, "the providers are", facts->providers, provider_name(ctx, i));
    if (count_words(facts->providers) != table->provider_count) {
        (void)snprintf(values[1], sizeof values[1], "%u of them", table->provider_count);
        return note_mismatch(diag, "the providers are", facts->providers, values[1]);
    }
    for (uint32_t i = 0; i < table->operator_count; i++) {
        bool first = true;

        if (!is_among(operators[i].domain, facts->domains))
            return note_mismatch(diag, "the domains are", facts->domains, operators[i].domain);
        for (uint32_t k = 0; first && k < i; k++)
            first = strcmp(operators[k].domain, operators[i].domain) != 0;
        domains += first;
    }
    if (count_words(facts->domains) != domains) {
        (void)snprintf(values[1], sizeof values[1], "%u of them", domains);
        return note_mismatch(diag, "the domains are", facts->domains, values[1]);
    }
    return INLAY_OK;
}
