package sample

import android.net.ConnectivityManager
import android.net.Network
import android.os.Bundle
import androidx.appcompat.app.AppCompatActivity
import androidx.core.content.ContextCompat
import tipcast.Change
import tipcast.FeedList
import tipcast.FeedListener
import tipcast.Watcher

class TickerActivity : AppCompatActivity(), FeedListener {
    private lateinit var watcher: Watcher

    override fun onCreate(saved: Bundle?) {
        super.onCreate(saved)
        watcher = Watcher.Builder("https://gateway.example", "demo")
            .callbacks(ContextCompat.getMainExecutor(this)).start(this)
        getSystemService(ConnectivityManager::class.java).registerDefaultNetworkCallback(
            object : ConnectivityManager.NetworkCallback() {
                override fun onAvailable(network: Network) = watcher.networkChanged()
            })
    }

    override fun onStart() { super.onStart(); watcher.resume() }
    override fun onStop() { watcher.pause(); super.onStop() }
    override fun onDestroy() { watcher.close(); super.onDestroy() }

    override fun onChange(list: FeedList, change: Change) { /* draw it */ }
}
