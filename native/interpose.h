/* What the interposing libraries share: the arm, the function that was there before, call counts.
 *
 * An interposing library is opened RTLD_GLOBAL (or LD_PRELOAD) before the backend whose functions it
 * takes the place of. GGMLPROBE_ARM, read once when it is loaded, says what its functions answer;
 * without it they pass every call on. C11 and C++17.
 */
#pragma once

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
#define INTERPOSE_API extern "C" __attribute__((visibility("default")))
#else
#define INTERPOSE_API __attribute__((visibility("default")))
#endif

enum { INTERPOSE_OBJECTS = 512 };

struct interpose_objects {
    const char * names[INTERPOSE_OBJECTS];
    int count;
};

static inline int interpose_list(struct dl_phdr_info * info, size_t size, void * data) {
    struct interpose_objects * objects = (struct interpose_objects *) data;
    (void) size;
    if (info->dlpi_name != NULL && info->dlpi_name[0] != '\0' && objects->count < INTERPOSE_OBJECTS) {
        objects->names[objects->count++] = info->dlpi_name;
    }
    return 0;
}

/* The definition of a symbol in any loaded library but this one, NULL where there is none.
 * RTLD_NEXT does not see libraries that were opened after this one, nor those opened RTLD_LOCAL. */
static inline void * interpose_find(const char * symbol) {
    struct interpose_objects objects = { { NULL }, 0 };
    Dl_info own, other;
    if (dladdr((void *) (uintptr_t) &interpose_list, &own) == 0) {
        return NULL;
    }
    dl_iterate_phdr(interpose_list, &objects);
    for (int i = 0; i < objects.count; i++) {
        void * handle = dlopen(objects.names[i], RTLD_LAZY | RTLD_NOLOAD);
        if (handle == NULL) {
            continue;
        }
        void * found = dlsym(handle, symbol);
        dlclose(handle);
        if (found != NULL && dladdr(found, &other) != 0 && other.dli_fbase != own.dli_fbase) {
            return found;
        }
    }
    return NULL;
}

/* A function that was replaced: looked up when it is first needed, calls counted. */
struct interposed {
    const char * symbol;
    void * original;
    uint64_t calls;
};

static inline void interpose_count(struct interposed * function) {
    __atomic_fetch_add(&function->calls, 1, __ATOMIC_RELAXED);
}

static inline void * interpose_original(struct interposed * function) {
    void * original = __atomic_load_n(&function->original, __ATOMIC_ACQUIRE);
    if (original == NULL) {
        original = interpose_find(function->symbol);
        if (original == NULL) {
            fprintf(stderr, "ggmlprobe: no loaded library defines %s\n", function->symbol);
            abort();
        }
        __atomic_store_n(&function->original, original, __ATOMIC_RELEASE);
    }
    return original;
}

/* The arm's name, up to an optional ":N" or ":N,M", whose numbers go to n and m. */
struct interpose_arm {
    char name[32];
    int n, m;
};

static inline struct interpose_arm interpose_read_arm(void) {
    struct interpose_arm arm = { "", 0, 0 };
    const char * text = getenv("GGMLPROBE_ARM");
    if (text != NULL) {
        sscanf(text, "%31[a-z_0-9-]:%d,%d", arm.name, &arm.n, &arm.m);
    }
    return arm;
}

static inline int interpose_is(const struct interpose_arm * arm, const char * name) {
    return strcmp(arm->name, name) == 0;
}
