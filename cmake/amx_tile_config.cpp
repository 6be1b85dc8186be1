// Does this compiler keep the stores that fill a tile configuration before ldtilecfg?
// Exit status: 0 kept, 1 dropped, 2 cannot tell.
// The trap flag steps through the function and stops in front of ldtilecfg, so the answer is the
// same on machines with and without AMX.

#include <csignal>
#include <cstdint>
#include <cstring>
#include <immintrin.h>
#include <ucontext.h>
#include <unistd.h>
#include <x86intrin.h>

enum { KEPT = 0, DROPPED = 1, CANNOT_TELL = 2 };

namespace {

// The layout the processor reads, Intel SDM volume 1, section 18.3.2.
struct tile_config {
    uint8_t  palette_id;
    uint8_t  start_row;
    uint8_t  reserved[14];
    uint16_t colsb[16];
    uint8_t  rows[16];
};

constexpr uint64_t trap_flag = 0x100;

// Volatile, so that no optimized copy of the whole pattern lies about in memory.
volatile uint8_t  expected_rows[8]  = { 8, 8, 16, 16, 16, 16, 16, 16 };
volatile uint16_t expected_colsb[8] = { 64, 64, 32, 32, 64, 64, 64, 64 };

bool is_expected(const uint8_t * bytes) {
    tile_config seen;
    std::memcpy(&seen, bytes, sizeof(seen));
    bool same = seen.palette_id == 1 && seen.start_row == 0;
    for (int i = 0; i < 14; i++) {
        same = same && seen.reserved[i] == 0;
    }
    for (int i = 0; i < 16; i++) {
        same = same && seen.rows[i]  == (i < 8 ? expected_rows[i]  : 0);
        same = same && seen.colsb[i] == (i < 8 ? expected_colsb[i] : 0);
    }
    return same;
}

// ModRM's register numbers in the order of the instruction encoding.
const int registers[16] = { REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                            REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15 };

// The address of the operand of ldtilecfg (VEX.128.NP.0F38.W0 49 /0) at code; null for any other.
const uint8_t * ldtilecfg_operand(const uint8_t * code, const greg_t * gregs) {
    if (code[0] != 0xc4 || (code[1] & 0x1f) != 0x02 || code[2] != 0x78 || code[3] != 0x49) {
        return nullptr;
    }
    const int mod = code[4] >> 6;
    const int rm  = code[4] & 7;
    if (mod == 3 || ((code[4] >> 3) & 7) != 0) {
        return nullptr;
    }
    const int high_index = code[1] & 0x40 ? 0 : 8;
    const int high_base  = code[1] & 0x20 ? 0 : 8;
    const uint8_t * rest = code + 5;
    int64_t address = 0;
    int base = rm;
    if (rm == 4) {
        const int scale = *rest >> 6;
        const int index = ((*rest >> 3) & 7) | high_index;
        base = *rest++ & 7;
        address += index == 4 ? 0 : (int64_t) ((uint64_t) gregs[registers[index]] << scale);
    }
    int32_t displacement = 0;
    if (mod == 1) {
        displacement = (int8_t) *rest++;
    } else if (mod == 2 || base == 5) {
        std::memcpy(&displacement, rest, sizeof(displacement));
        rest += sizeof(displacement);
    }
    if (mod == 0 && rm == 5) {
        address += (int64_t) rest;
    } else if (mod != 0 || base != 5) {
        address += gregs[registers[base | high_base]];
    }
    return (const uint8_t *) (address + displacement);
}

void on_signal(int signal, siginfo_t *, void * context) {
    const greg_t * gregs = ((ucontext_t *) context)->uc_mcontext.gregs;
    const uint8_t * operand = ldtilecfg_operand((const uint8_t *) gregs[REG_RIP], gregs);
    if (operand) {
        _exit(is_expected(operand) ? KEPT : DROPPED);
    }
    if (signal != SIGTRAP) {
        _exit(CANNOT_TELL);
    }
}

// ggml's pattern: a local configuration filled with constants, loaded once per thread.
__attribute__((noinline)) void load_tile_config() {
    static thread_local bool done = false;
    if (done) {
        return;
    }
    alignas(64) tile_config tc = {};
    tc.palette_id = 1;
    tc.start_row  = 0;
    for (int i = 0; i < 8; i++) {
        tc.rows[i]  = i < 2 ? 8 : 16;
        tc.colsb[i] = i == 2 || i == 3 ? 32 : 64;
    }
    _tile_loadconfig(&tc);
    done = true;
}

}

int main() {
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO;
    const int signals[] = { SIGTRAP, SIGILL, SIGSEGV };
    for (int signal : signals) {
        sigaction(signal, &action, nullptr);
    }
    __writeeflags(__readeflags() | trap_flag);
    load_tile_config();
    return CANNOT_TELL;
}
