/* The ELF file of a plugin: headers, note, build id, and the sanitizers that it wants to find in the process. */
#include "plugin/note.h"
#include "base/isa.h"
#include "base/memory.h"
#include <errno.h>
#include <gelf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Bounds of what is read into memory; real plugins stay far below. */
enum { MOST_HEADERS = 4096, MOST_NOTE_BYTES = 1 << 20, MOST_DYNAMIC_BYTES = 1 << 20 };

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define HOST_ORDER ELFDATA2LSB
#else
#define HOST_ORDER ELFDATA2MSB
#endif
#if UINTPTR_MAX == UINT64_MAX
#define HOST_CLASS ELFCLASS64
#else
#define HOST_CLASS ELFCLASS32
#endif
#if defined(__x86_64__)
#define HOST_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define HOST_MACHINE EM_AARCH64
#elif defined(__riscv)
#define HOST_MACHINE EM_RISCV
#elif defined(__powerpc64__)
#define HOST_MACHINE EM_PPC64
#elif defined(__s390x__)
#define HOST_MACHINE EM_S390
#elif defined(__i386__)
#define HOST_MACHINE EM_386
#elif defined(__arm__)
#define HOST_MACHINE EM_ARM
#else
#define HOST_MACHINE EM_NONE /* any: dlopen will say */
#endif

static const char *machine_text(unsigned machine, char text[32])
{
    static const struct {
        unsigned machine;
        const char *name;
    } names[] = {
        { EM_X86_64, "x86-64" }, { EM_AARCH64, "arm64" }, { EM_386, "32-bit x86" }, { EM_ARM, "32-bit ARM" },
        { EM_RISCV, "RISC-V" },  { EM_PPC64, "ppc64" },   { EM_S390, "s390" },      { EM_MIPS, "MIPS" },
    };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].machine == machine)
            return names[i].name;
    (void)snprintf(text, 32, "machine %u", machine);
    return text;
}

static inlay_status malformed(inlay_diag *diag, const char *what)
{
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "a malformed ELF file: %s; build or copy it again", what);
}

/* Is [offset, offset + bytes) within the file? */
static bool within(uint64_t offset, uint64_t bytes, uint64_t file_bytes)
{
    return offset <= file_bytes && bytes <= file_bytes - offset;
}

static inlay_status check_header(const GElf_Ehdr *Ehdr, uint64_t file_bytes, inlay_diag *diag)
{
    char text[2][32];

    if (Ehdr->e_ident[EI_CLASS] != HOST_CLASS)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "built for %s-bit programs, and this is not one",
                          Ehdr->e_ident[EI_CLASS] == ELFCLASS32 ? "32" : "64");
    if (Ehdr->e_ident[EI_DATA] != HOST_ORDER)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "built for machines of the other byte order");
    if (HOST_MACHINE != EM_NONE && Ehdr->e_machine != HOST_MACHINE)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "built for another machine: %s, while this is %s",
                          machine_text(Ehdr->e_machine, text[0]), machine_text(HOST_MACHINE, text[1]));
    if (Ehdr->e_type != ET_DYN)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "an ELF file, but no shared object: link it with -shared");
    if (!within(Ehdr->e_shoff, (uint64_t)Ehdr->e_shnum * Ehdr->e_shentsize, file_bytes))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "truncated: its section headers would end beyond its %llu "
                          "bytes; copy it again",
                          (unsigned long long)file_bytes);
    return INLAY_OK;
}

/* ------------------------------------------------------------------ notes */

static inlay_status take_note(const char *data, size_t bytes, note_facts *out, inlay_diag *diag)
{
    uint32_t reach, at;
    const char *texts[3];

    if (out->present)
        return malformed(diag, "two notes of a plugin");
    if (bytes < sizeof reach)
        return malformed(diag, "a note without a size");
    memcpy(&reach, data, sizeof reach);
    if (reach < offsetof(inlay_note, text_bytes) + sizeof out->note.text_bytes || reach > bytes)
        return malformed(diag, "its note's struct_size is out of range");
    memcpy(&out->note, data, reach < sizeof out->note ? reach : sizeof out->note);
    if (out->note.text_bytes > bytes - reach || out->note.text_bytes > sizeof out->text)
        return malformed(diag, "its note's texts are out of range");
    memcpy(out->text, data + reach, out->note.text_bytes);
    at = 0;
    for (int i = 0; i < 3; i++) {
        const char *end = memchr(out->text + at, '\0', out->note.text_bytes - at);

        if (end == NULL)
            return malformed(diag, "its note's texts do not end");
        texts[i] = out->text + at;
        at = (uint32_t)(end - out->text) + 1;
    }
    for (uint32_t i = 0; i < out->note.text_bytes; i++)
        if (out->text[i] != '\0' && (out->text[i] < ' ' || out->text[i] > '~'))
            return malformed(diag, "its note's texts have characters that are not printable");
    out->name = texts[0];
    out->providers = texts[1];
    out->domains = texts[2];
    out->sanitizers |= out->note.sanitizers;
    out->present = true;
    return INLAY_OK;
}

static inlay_status take_notes(Elf *elf, const GElf_Phdr *Phdr, note_facts *out, inlay_diag *diag)
{
    Elf_Data *data;
    GElf_Nhdr Nhdr;
    size_t at = 0, next, name, descriptor;

    if (Phdr->p_filesz > MOST_NOTE_BYTES)
        return malformed(diag, "more than a megabyte of notes");
    data = elf_getdata_rawchunk(elf, (int64_t)Phdr->p_offset, Phdr->p_filesz,
                                Phdr->p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
    if (data == NULL)
        return Phdr->p_filesz == 0 ? INLAY_OK : malformed(diag, "its notes cannot be read");
    while ((next = gelf_getnote(data, at, &Nhdr, &name, &descriptor)) > 0) {
        const char *base = data->d_buf;

        if (Nhdr.n_namesz == sizeof INLAY_NOTE_OWNER && memcmp(base + name, INLAY_NOTE_OWNER, Nhdr.n_namesz) == 0 &&
            Nhdr.n_type == INLAY_NOTE_PLUGIN) {
            inlay_status status = take_note(base + descriptor, Nhdr.n_descsz, out, diag);
            if (status != INLAY_OK)
                return status;
        } else if (Nhdr.n_namesz == 4 && memcmp(base + name, "GNU", 4) == 0 && Nhdr.n_type == NT_GNU_BUILD_ID) {
            for (uint32_t i = 0; i < Nhdr.n_descsz && 2 * i + 2 < sizeof out->build_id; i++)
                (void)snprintf(out->build_id + 2 * (size_t)i, 3, "%02x", (unsigned char)base[descriptor + i]);
        }
        at = next;
    }
    return INLAY_OK;
}

/* ------------------------------------------------------------------ what it asks the dynamic linker for */

/* The place in the file of a virtual address; UINT64_MAX: none. */
static uint64_t offset_of(Elf *elf, size_t headers, uint64_t address)
{
    GElf_Phdr Phdr;

    for (size_t i = 0; i < headers; i++)
        if (gelf_getphdr(elf, (int)i, &Phdr) != NULL && Phdr.p_type == PT_LOAD && address >= Phdr.p_vaddr &&
            address - Phdr.p_vaddr < Phdr.p_filesz)
            return Phdr.p_offset + (address - Phdr.p_vaddr);
    return UINT64_MAX;
}

static uint32_t sanitizer_of_library(const char *name)
{
    static const struct {
        const char *stem;
        uint32_t bit;
    } stems[] = { { "libasan.so", INLAY_SANITIZER_ADDRESS },          { "libclang_rt.asan", INLAY_SANITIZER_ADDRESS },
                  { "libtsan.so", INLAY_SANITIZER_THREAD },           { "libclang_rt.tsan", INLAY_SANITIZER_THREAD },
                  { "libclang_rt.msan", INLAY_SANITIZER_MEMORY },     { "libhwasan.so", INLAY_SANITIZER_HWADDRESS },
                  { "libclang_rt.hwasan", INLAY_SANITIZER_HWADDRESS } };

    for (size_t i = 0; i < sizeof stems / sizeof stems[0]; i++)
        if (strncmp(name, stems[i].stem, strlen(stems[i].stem)) == 0)
            return stems[i].bit;
    return 0;
}

/* A file without a note may still say that it was instrumented: by the libraries that it needs. */
static void find_sanitizers(int fd, Elf *elf, size_t headers, const GElf_Phdr *Phdr, note_facts *out)
{
    Elf_Data *data = NULL;
    uint64_t strings = UINT64_MAX;
    size_t count;
    GElf_Dyn Dyn;

    if (Phdr->p_filesz <= MOST_DYNAMIC_BYTES)
        data = elf_getdata_rawchunk(elf, (int64_t)Phdr->p_offset, Phdr->p_filesz, ELF_T_DYN);
    if (data == NULL)
        return; /* dlopen will say what is wrong with it */
    count = data->d_size / gelf_fsize(elf, ELF_T_DYN, 1, EV_CURRENT);
    for (size_t i = 0; i < count && gelf_getdyn(data, (int)i, &Dyn) != NULL && Dyn.d_tag != DT_NULL; i++)
        if (Dyn.d_tag == DT_STRTAB)
            strings = offset_of(elf, headers, Dyn.d_un.d_ptr);
    for (size_t i = 0; i < count && gelf_getdyn(data, (int)i, &Dyn) != NULL && Dyn.d_tag != DT_NULL; i++) {
        char name[32] = "";

        if (Dyn.d_tag != DT_NEEDED || strings > INT64_MAX / 2 || Dyn.d_un.d_val > INT64_MAX / 2)
            continue;
        if (pread(fd, name, sizeof name - 1, (off_t)(strings + Dyn.d_un.d_val)) > 0)
            out->sanitizers |= sanitizer_of_library(name);
    }
}

/* ------------------------------------------------------------------ the file */

static inlay_status read_segments(int fd, Elf *elf, uint64_t file_bytes, note_facts *out, inlay_diag *diag)
{
    size_t headers = 0;
    bool loads = false;
    inlay_status status = INLAY_OK;
    GElf_Phdr Phdr;

    if (elf_getphdrnum(elf, &headers) != 0 || headers == 0 || headers > MOST_HEADERS)
        return malformed(diag, "it has no program headers, or far too many");
    for (size_t i = 0; i < headers; i++) {
        if (gelf_getphdr(elf, (int)i, &Phdr) == NULL)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "truncated: its program headers would end beyond its %llu "
                              "bytes; copy it again",
                              (unsigned long long)file_bytes);
        if (Phdr.p_type != PT_NULL && Phdr.p_filesz > 0 && !within(Phdr.p_offset, Phdr.p_filesz, file_bytes))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "truncated: segment %zu would end at byte %llu of %llu; "
                              "copy it again",
                              i, (unsigned long long)(Phdr.p_offset + Phdr.p_filesz), (unsigned long long)file_bytes);
        loads |= Phdr.p_type == PT_LOAD;
    }
    if (!loads)
        return malformed(diag, "nothing in it is to be loaded");
    for (size_t i = 0; i < headers && status == INLAY_OK; i++) {
        if (gelf_getphdr(elf, (int)i, &Phdr) == NULL)
            continue;
        if (Phdr.p_type == PT_NOTE)
            status = take_notes(elf, &Phdr, out, diag);
        else if (Phdr.p_type == PT_DYNAMIC)
            find_sanitizers(fd, elf, headers, &Phdr, out);
    }
    return status;
}

inlay_status note_read(int fd, uint64_t file_bytes, note_facts *out, inlay_diag *diag)
{
    GElf_Ehdr header;
    inlay_status status;
    Elf *elf;

    memset(out, 0, sizeof *out);
    out->name = out->providers = out->domains = "";
    errno = 0;
    (void)elf_version(EV_CURRENT);
    /* Not mapped: a file that shrinks while it is read must not be a signal. */
    elf = elf_begin(fd, ELF_C_READ, NULL);
    if (elf == NULL)
        return errno == ENOMEM ? no_memory(diag, "to read an ELF file")
                               : inlay_fail(diag, INLAY_INVALID_ARGUMENT, "cannot be read as an ELF file");
    if (elf_kind(elf) != ELF_K_ELF) {
        (void)elf_end(elf);
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "not an ELF file");
    }
    out->is_elf = true;
    if (gelf_getehdr(elf, &header) == NULL)
        status = malformed(diag, "its header cannot be read");
    else
        status = check_header(&header, file_bytes, diag);
    if (status == INLAY_OK)
        status = read_segments(fd, elf, file_bytes, out, diag);
    if (status != INLAY_OK && errno == ENOMEM)
        status = no_memory(diag, "to read an ELF file");
    (void)elf_end(elf);
    return status;
}

/* ------------------------------------------------------------------ judgement */

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
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "built with %s, and this host is not: its runtime would end the "
                          "process; build both with it, or neither",
                          sanitizer_text(foreign));
    if (!facts->present)
        return INLAY_OK;
    if (facts->note.abi_major > INLAY_ABI_MAJOR)
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "built for plugin ABI %u.%u; this host loads %u.x: it needs a newer "
                          "inlay",
                          facts->note.abi_major, facts->note.abi_minor, INLAY_ABI_MAJOR);
    if (facts->note.abi_major < INLAY_ABI_MAJOR)
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "built for plugin ABI %u.%u; this host loads %u.x: build the plugin "
                          "again with this inlay's headers",
                          facts->note.abi_major, facts->note.abi_minor, INLAY_ABI_MAJOR);
    if (facts->note.abi_minor_oldest > INLAY_ABI_MINOR)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "needs a host of ABI %u.%u or newer; this one has %u.%u",
                          facts->note.abi_major, facts->note.abi_minor_oldest, INLAY_ABI_MAJOR, INLAY_ABI_MINOR);
    if ((facts->note.flags & 0xffffu) != 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "its note has flags 0x%x that this host does not know",
                          facts->note.flags);
    if (facts->note.isa > level)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "compiled for %s; this CPU has %s: build it with a lower -march",
                          isa_level_text(facts->note.isa), isa_level_text(level));
    if ((facts->note.isa_extra & ~extra) != 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "compiled for %s, which this CPU lacks: build it with a lower "
                          "-march",
                          isa_extra_text(facts->note.isa_extra & ~extra));
    return INLAY_OK;
}

bool note_lists(const char *list, const char *word)
{
    size_t bytes = strlen(word);

    for (const char *at = list; *at != '\0'; at += strcspn(at, " ")) {
        at += strspn(at, " ");
        if (strcspn(at, " ") == bytes && bytes > 0 && strncmp(at, word, bytes) == 0)
            return true;
    }
    return false;
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

static inlay_status lies(inlay_diag *diag, const char *what, const char *note, const char *code)
{
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                      "its note lies: %s '%.150s' there, '%.150s' in inlay_plugin_open; "
                      "correct the arguments of INLAY_PLUGIN_NOTE or KIT_PLUGIN_NAMED",
                      what, note, code);
}

inlay_status note_agrees(const note_facts *facts, const inlay_plugin *table,
                         const char *(*provider_name)(const void *ctx, uint32_t i), const void *ctx,
                         const inlay_operator *operators, inlay_diag *diag)
{
    char said[2][32];
    uint32_t domains = 0;

    if (!facts->present)
        return INLAY_OK;
    if (facts->note.abi_major != table->abi_major || facts->note.abi_minor != table->abi_minor) {
        (void)snprintf(said[0], sizeof said[0], "%u.%u", facts->note.abi_major, facts->note.abi_minor);
        (void)snprintf(said[1], sizeof said[1], "%u.%u", table->abi_major, table->abi_minor);
        return lies(diag, "the ABI is", said[0], said[1]);
    }
    if (facts->name[0] == '\0')
        return INLAY_OK;
    if (strcmp(facts->name, table->name) != 0)
        return lies(diag, "the plugin is", facts->name, table->name);
    for (uint32_t i = 0; i < table->provider_count; i++)
        if (!note_lists(facts->providers, provider_name(ctx, i)))
            return lies(diag, "the providers are", facts->providers, provider_name(ctx, i));
    if (count_words(facts->providers) != table->provider_count) {
        (void)snprintf(said[1], sizeof said[1], "%u of them", table->provider_count);
        return lies(diag, "the providers are", facts->providers, said[1]);
    }
    for (uint32_t i = 0; i < table->operator_count; i++) {
        bool first = true;

        if (!note_lists(facts->domains, operators[i].domain))
            return lies(diag, "the domains are", facts->domains, operators[i].domain);
        for (uint32_t k = 0; first && k < i; k++)
            first = strcmp(operators[k].domain, operators[i].domain) != 0;
        domains += first;
    }
    if (count_words(facts->domains) != domains) {
        (void)snprintf(said[1], sizeof said[1], "%u of them", domains);
        return lies(diag, "the domains are", facts->domains, said[1]);
    }
    return INLAY_OK;
}
