// SPDX-License-Identifier: Apache-2.0
// pointer_map.h: from an address to what was registered for it; written at start-up, read at every launch.
//
// Open addressing with linear probing over a power of two of cells, at most half full. Readers take no lock: they load
// the table (acquire) and probe. Writers (registration, dlclose) are serialized by their caller. A table that has grown
// too small is replaced; the old one is kept, since a reader may still be in it: all old ones together are smaller than
// the current one.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace barcuda::runtime {

// T has a member `const void* key`.
template <class T> class PointerMap {
  public:
    T* find(const void* key) const {
        const Table* table = table_.load(std::memory_order_acquire);
        if (!table) return nullptr;
        for (std::size_t i = hash(key);; i++) {
            T* cell = table->cells[i & table->mask].load(std::memory_order_acquire);
            if (!cell) return nullptr;
            if (cell != removed() && cell->key == key) return cell;
        }
    }

    // A second entry of the same key replaces the first (a library that was unloaded and loaded again). False: no
    // memory.
    bool insert(T* entry) {
        Table* table = table_.load(std::memory_order_relaxed);
        if (!table || used_ * 2 >= table->mask) {
            table = grown(table);
            if (!table) return false;
        }
        std::size_t i = hash(entry->key);
        for (;; i++) {
            T* cell = table->cells[i & table->mask].load(std::memory_order_relaxed);
            if (!cell) {
                used_++;
                break;
            }
            if (cell != removed() && cell->key == entry->key) break;
        }
        table->cells[i & table->mask].store(entry, std::memory_order_release);
        return true;
    }

    void remove(const T* entry) {
        Table* table = table_.load(std::memory_order_relaxed);
        if (!table) return;
        for (std::size_t i = hash(entry->key);; i++) {
            T* cell = table->cells[i & table->mask].load(std::memory_order_relaxed);
            if (!cell) return;  // replaced by another entry of its key
            if (cell != entry) continue;
            table->cells[i & table->mask].store(removed(), std::memory_order_release);
            sweep(*table, i);
            return;
        }
    }

    template <class Visit> void each(Visit visit) const {
        const Table* table = table_.load(std::memory_order_acquire);
        for (std::size_t i = 0; table && i <= table->mask; i++)
            if (T* cell = table->cells[i].load(std::memory_order_acquire); cell && cell != removed()) visit(*cell);
    }

  private:
    struct Table {
        std::size_t mask;
        Table* old;  // the one that this one replaced
        std::atomic<T*> cells[];
    };

    static T* removed() { return reinterpret_cast<T*>(std::uintptr_t{1}); }

    // Addresses of functions are multiples of 16 and lie close together: the high half of a multiplication mixes them.
    static std::size_t hash(const void* key) {
        return (reinterpret_cast<std::uintptr_t>(key) * 0x9E3779B97F4A7C15u) >> 32;
    }

    // No probe continues behind an empty cell, so removed cells before one can become empty, too. Pointers that are
    // added and removed do not fill the table.
    void sweep(Table& table, std::size_t i) {
        if (table.cells[(i + 1) & table.mask].load(std::memory_order_relaxed)) return;
        for (; table.cells[i & table.mask].load(std::memory_order_relaxed) == removed(); i--) {
            table.cells[i & table.mask].store(nullptr, std::memory_order_release);
            used_--;
        }
    }

    Table* grown(Table* old) {
        std::size_t live = 0;
        each([&](T&) { live++; });
        std::size_t cells = 64;
        while (cells < live * 4) cells *= 2;
        auto* table = static_cast<Table*>(std::calloc(1, sizeof(Table) + cells * sizeof(std::atomic<T*>)));
        if (!table) return old && used_ < old->mask ? old : nullptr;
        table->mask = cells - 1;
        table->old = old;
        used_ = 0;
        each([&](T& entry) {
            std::size_t i = hash(entry.key);
            while (table->cells[i & table->mask].load(std::memory_order_relaxed)) i++;
            table->cells[i & table->mask].store(&entry, std::memory_order_relaxed);
            used_++;
        });
        table_.store(table, std::memory_order_release);
        return table;
    }

    std::atomic<Table*> table_{nullptr};
    std::size_t used_ = 0;  // cells that are not empty, removed ones included
};

}  // namespace barcuda::runtime
