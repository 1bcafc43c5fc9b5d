package sample

import androidx.compose.foundation.lazy.LazyColumn
import androidx.compose.foundation.lazy.items
import androidx.compose.material.Text
import androidx.compose.runtime.Composable
import androidx.compose.runtime.getValue
import androidx.lifecycle.SavedStateHandle
import androidx.lifecycle.ViewModel
import androidx.lifecycle.compose.collectAsStateWithLifecycle
import androidx.lifecycle.viewModelScope
import androidx.lifecycle.viewmodel.compose.viewModel
import kotlinx.coroutines.flow.SharingStarted
import kotlinx.coroutines.flow.onEach
import kotlinx.coroutines.flow.retryWhen
import kotlinx.coroutines.flow.stateIn
import tipcast.FeedList
import tipcast.WatchEnded
import tipcast.Watcher
import tipcast.lists

class TickerModel(private val state: SavedStateHandle) : ViewModel() {
    val list = Watcher.Builder("https://gateway.example", "demo")
        .from(state.get<String>("list")?.let(FeedList::fromJson))
        .lists()
        .onEach { state["list"] = it.toJson() }
        .retryWhen { cause, _ -> cause !is WatchEnded }
        // Five seconds: turning the screen is no reason to connect again.
        .stateIn(viewModelScope, SharingStarted.WhileSubscribed(5_000), null)
}

@Composable
fun Ticker(model: TickerModel = viewModel()) {
    // Stops collecting, and so closes the connection, while the app is in the background.
    val list by model.list.collectAsStateWithLifecycle()
    LazyColumn {
        items(list?.rows.orEmpty(), key = { it.row }) { row ->
            Text("${row.user.name}: ${row.gift.name} ×${row.count}")
        }
    }
}
