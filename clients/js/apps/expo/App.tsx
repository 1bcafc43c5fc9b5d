import { useEffect, useState } from "react";
import { FlatList, SafeAreaView, StyleSheet, Text, View } from "react-native";
import type { Row, State } from "tipcast/client";
import { watch } from "./watch";

const URL = "https://gateway.example";

export default function App() {
  const [rows, setRows] = useState<readonly Row[]>([]);
  const [state, setState] = useState<State>("connecting");
  useEffect(() => watch({ url: URL, feed: "demo", onChange: (list) => setRows(list.rows), onState: setState }), []);
  return (
    <SafeAreaView style={styles.page}>
      <Text style={styles.quiet}>{state}</Text>
      <FlatList
        data={rows}
        keyExtractor={(row) => row.row}
        renderItem={({ item }) => (
          <View style={styles.row}>
            <Text style={styles.name}>{item.user.name}</Text>
            <Text>{`${item.gift.name} ×${item.count}`}</Text>
          </View>
        )}
      />
    </SafeAreaView>
  );
}

const styles = StyleSheet.create({
  page: { flex: 1, padding: 16 },
  row: { paddingVertical: 8, borderBottomWidth: StyleSheet.hairlineWidth },
  name: { fontWeight: "600" },
  quiet: { opacity: 0.6 },
});
